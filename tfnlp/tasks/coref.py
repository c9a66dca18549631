"""Clusters of the mentions of a document that name the same thing (coreference)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.coreference import Clusters, CorefDocument, CorefRows
from tfnlp.layers import CRF
from tfnlp.models.coreference import NEVER
from tfnlp.objectives.coreference import CoreferenceLoss
from tfnlp.settings.tasks import CorefSettings
from tfnlp.tasks import report
from tfnlp.tasks.coreference_scores import coreference_scores
from tfnlp.tasks.playground import Field, Playground
from tfnlp.tasks.sequences import (
    Encoded,
    EncodedExamples,
    Targets,
    read_in_places,
    strings,
    windows_of,
)
from tfnlp.tasks.task import TEXTS, HeadTask, Inputs, Measures, Outputs, Prediction, Tensors
from tfnlp.text.words import MARKS, characters, word_places

_HOPS = 16  # 2**16 mentions in a row
_WIDEST = 30
_METRICS = ("mention", "muc", "b3", "ceafe")
_COLOURS = 8


class CorefPlayground(Playground):
    """The mentions of a text, those of a cluster in one colour, on a page."""

    title = "Coreference"
    button = "Find mentions"
    help = "Mentions in a text; those that name the same have the same number."
    takes = ({"text"},)
    gives = {"mentions", "starts", "ends", "clusters"}
    fields = (
        Field("text", "Text", "text",
              "Ada Lovelace met Charles Babbage. She wrote to him about his engine."),
    )  # fmt: skip

    def shown(self, row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        clusters: dict[int, list[list[int]]] = {}
        for *place, cluster in zip(found["starts"], found["ends"], found["clusters"], strict=True):
            if cluster >= 0:
                clusters.setdefault(cluster, []).append(place)
        return {"clusters": [clusters[number] for number in sorted(clusters)]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Coref(HeadTask):
    """Clusters of mentions (Lee et al. 2017, 2018), see `tfnlp.models.Coreference`.

    A document is read in windows of `max_length` tokens that do not overlap, each on its own, as
    Joshi et al. 2019 found best; mentions of all windows are compared.

    Args:
        width: words of the longest mention.
        singletons: whether a mention that is alone in its cluster is one, as in the training data.
    """

    name = "coref"
    Settings = CorefSettings
    form = CorefRows()
    playground = CorefPlayground
    output = "mention"
    predicts = "clusters"
    does = "find the mentions of a text that name the same"
    pipeline = "token-classification"
    only_module = "pairs of mentions of whole documents"
    main_measure = "conll_f1"
    count_of_texts = 1
    takes = "a text"

    width: int = 10
    singletons: bool = True

    def check(self) -> None:
        if self.width < 1:
            raise ValueError(f"width={self.width} must be at least 1")

    @classmethod
    def learnt_from(cls, examples: Sequence[Any], settings: Any, **values: Any) -> Self:
        width = settings.width
        if width is None:
            sizes = [
                len(word_places(e.text[start:end], MARKS))
                for e in examples
                for cluster in e.characters(e.clusters)
                for start, end in cluster
            ]
            if not sizes:
                raise ValueError("the training examples have no mentions")
            width = min(_WIDEST, int(np.quantile(sizes, 0.99, method="inverted_cdf")))
        return cls(
            width=max(1, width),
            singletons=any(len(cluster) == 1 for e in examples for cluster in e.clusters),
            max_length=values["max_length"],
        )

    @property
    def head(self) -> dict[str, Any]:
        return {**super().head, "window": self.max_length, "width": self.width}

    @property
    def window(self) -> int:
        return self.max_length

    def objective(self, model: keras.Model, **options: Any) -> CoreferenceLoss:
        return CoreferenceLoss(model, **options)

    def example_of(self, texts: Sequence[str], number: int) -> CorefDocument:
        return CorefDocument(texts[0], None)

    def some_label(self, example: Any) -> Any:
        return dataclasses.replace(example, clusters=())

    @classmethod
    def texts_of(cls, example: Any) -> list[str]:
        return [example.text]

    def inputs_of(self, examples: Sequence[Any], first: int = 0) -> dict[str, Any]:
        return {"text": tf.constant([e.text for e in examples])}

    @property
    def signatures(self) -> dict[str, dict[str, tf.TensorSpec]]:
        return dict.fromkeys(("serving_default", TEXTS), {"text": strings("text")})

    def encode(self, reader: Any, inputs: Inputs, whole: bool) -> Encoded:
        """Encode texts `[B]`, each as all of its windows, one after the other: `[B, C window]`.

        The inputs also have `word_positions`, see `tfnlp.models.task_heads.MentionHead`; the result
        has `sizes` `[B]`, `starts`, `ends` and `lengths`, see `read_in_places`.
        """
        _, pieces, places = read_in_places(reader, inputs["text"])
        found = windows_of(reader, pieces, None, self.window, self.window)
        rows, count = found["window_row"], pieces.nrows()
        several = tf.math.unsorted_segment_sum(tf.ones_like(rows), rows, tf.cast(count, "int32"))
        sizes = self.window * several  # [B]
        packed = {name: self._rows(x, rows, count) for name, x in found["inputs"].items()}
        word = self._rows(found["token_word"] + 1, rows, count)  # 0: none
        head = self._rows(tf.cast(found["is_head"], tf.int32), rows, count)
        chosen = tf.where((word > 0) & (head > 0))  # [W, 2], in the order of words
        positions = tf.RaggedTensor.from_row_lengths(
            tf.cast(chosen[:, 1], "int32"), places["lengths"]
        )
        packed["word_positions"] = positions.to_tensor(shape=[None, packed["input_mask"].shape[1]])
        more = tf.shape(packed["input_mask"])[1] - tf.shape(packed["word_positions"])[1]
        packed["word_positions"] = tf.pad(packed["word_positions"], [[0, 0], [0, more]])
        nothing = {name: found["is_cut"] for name in ("null_positions", "is_cut")}
        return {**places, **nothing, "inputs": packed, "sizes": sizes}

    def _rows(self, x: tf.Tensor, rows: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """Return windows `[N, T]` as rows of documents `[B, C window]`."""
        x = tf.pad(x, [[0, 0], [0, self.window - tf.shape(x)[1]]])
        ragged = tf.RaggedTensor.from_value_rowids(x, tf.cast(rows, tf.int64), count)
        dense = ragged.to_tensor()  # [B, C, window]
        return tf.reshape(dense, [count, tf.shape(dense, tf.int64)[1] * self.window])

    def targets(self, encoded: EncodedExamples, examples: Sequence[Any]) -> Targets:
        """Return the cluster of each span of at most `width` words, `[width, n]`."""
        labels = []
        for number, example in enumerate(examples):
            found = np.zeros((self.width, encoded.sizes[number]), np.int32)
            part = slice(*encoded.splits[number : number + 2])
            starts, ends = encoded.starts[part], encoded.ends[part]
            offsets = _bytes(example.text)
            for cluster, spans in enumerate(example.characters(example.clusters), 1):
                places = offsets[np.array(spans)]  # [S, 2]
                first = np.searchsorted(ends, places[:, 0], "right")
                last = np.searchsorted(starts, places[:, 1], "left") - 1
                fits = (first <= last) & (last - first < self.width)
                found[(last - first)[fits], first[fits]] = cluster
            labels.append(found)
        return {"labels": labels}, {}

    def decode(
        self, outputs: Outputs, encoded: Encoded, inputs: Inputs, crf: CRF | None
    ) -> Tensors:
        """Return `mentions`, strings, `starts`, `ends`, characters, and `clusters`: `[B, K]` each.

        Mentions are in the order of the text, then padding: "" and -1.
        """
        clusters = clusters_of(outputs, self.singletons)  # [B, K]
        order = tf.argsort(tf.cast(clusters < 0, tf.int32), stable=True)
        clusters = tf.gather(clusters, order, batch_dims=1)
        most = tf.reduce_max(tf.reduce_sum(tf.cast(clusters >= 0, tf.int32), 1))
        clusters = clusters[:, :most]
        spans = tf.gather(outputs["spans"], order, batch_dims=1)[:, :most]
        before = tf.cast(tf.cumsum(encoded["lengths"], exclusive=True), tf.int32)[:, None]
        first = before + spans // self.width
        last = first + spans % self.width
        there = clusters >= 0

        def at(values: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
            found = tf.gather(tf.concat([tf.cast(values, tf.int32), [0]], 0),
                              tf.where(there, places, 0))  # fmt: skip
            return tf.where(there, found, -1)

        starts, ends = at(encoded["starts"], first), at(encoded["ends"], last)
        texts = tf.repeat(inputs["text"][:, None], most, axis=1)
        size = tf.where(there, ends - starts, 0)
        mentions = tf.strings.substr(texts, tf.maximum(starts, 0), size)
        starts, ends = (characters(inputs["text"], places) for places in (starts, ends))
        return {"mentions": mentions, "starts": starts, "ends": ends, "clusters": clusters}

    at_once = 1  # document

    def cut_to(self, example: CorefDocument, row: Prediction) -> Prediction:
        """Return clusters in characters, of a document of words in words, and their texts."""
        starts, ends, numbers = row["starts"], row["ends"], row["clusters"]
        if example.words is not None:
            places = np.array(example.places()).reshape(-1, 2)
            starts = np.searchsorted(places[:, 1], starts, "right").tolist()
            ends = np.searchsorted(places[:, 0], ends, "left").tolist()
        count = max(numbers, default=-1) + 1
        clusters: list[list[list[int]]] = [[] for _ in range(count)]
        mentions: list[list[str]] = [[] for _ in range(count)]
        for number, *place, text in zip(numbers, starts, ends, row["mentions"], strict=True):
            if place not in clusters[number]:
                clusters[number].append(place)
                mentions[number].append(text)
        return {"clusters": clusters, "mentions": mentions}

    def shown(self, example: Any, prediction: Prediction) -> str:
        several = [m for m in prediction["mentions"] if len(m) > 1] or prediction["mentions"]
        return "; ".join(" = ".join(mentions) for mentions in several)

    def measures(self, examples: Sequence[Any], predictions: Sequence[Prediction]) -> Measures:
        """Return what `coreference_scores` does, of all documents together."""
        return coreference_scores(self.golds(examples), [_clusters(p) for p in predictions])

    def perfect(self, example: Any) -> Prediction:
        return {"clusters": [[list(span) for span in c] for c in example.clusters], "mentions": []}

    def given(self, example: Any) -> dict[str, Any]:
        return {"text": example.text} if example.words is None else {"words": list(example.words)}

    def report_row(self, example: Any, prediction: Prediction) -> dict[str, Any]:
        return {**self.row(example, prediction), **self.measures([example], [prediction])}

    worst_first = "the CoNLL F1 of the document is lowest"
    error_columns = ("CoNLL F1", "gold", "predicted")

    def chart(self, rows: Sequence[report.Row]) -> report.Figure:
        scores = _of_rows(rows)
        counts = dict.fromkeys(_METRICS, sum(len(c) for row in rows for c in row["gold"]))
        return report.bars(_METRICS, counts, scores)

    def tables(self, rows: Sequence[report.Row]) -> list[report.Table]:
        scores = _of_rows(rows)
        head = ["metric", "precision", "recall", "F1"]
        cells = [
            [
                name,
                *(
                    f"{100 * scores[key]:.2f}" if key in scores else "–"
                    for key in (f"precision/{name}", f"recall/{name}", f"{name}_f1")
                ),
            ]
            for name in (*_METRICS, "ceafm", "blanc")
        ]
        return [report.Table("By metric", head, cells)]

    def is_wrong(self, row: report.Row) -> bool:
        return self.badness(row) > 0

    def badness(self, row: report.Row) -> float:
        right = float(sorted(row["gold"]) == sorted(row["clusters"]))
        return 1 - row.get("conll_f1", right)

    def error_cells(self, row: report.Row) -> list[report.Cell]:
        words = tuple(row["words"]) if "words" in row else None
        document = CorefDocument(" ".join(words) if words else row["text"], None, words)
        texts = [
            _coloured(document.text, document.characters(row[name]))
            for name in ("gold", "clusters")
        ]
        return [[(f"{100 - 100 * self.badness(row):.1f}", None)], *texts]


def clusters_of(outputs: Mapping[str, tf.Tensor], singletons: bool) -> tf.Tensor:
    """Return the cluster of each kept span, int32 `[B, K]`, -1 of those that are no mentions.

    A span is a mention where its score is above 0, and follows its best antecedent among mentions
    where that scores above 0. Clusters are numbered in the order of their first mentions; with
    `singletons` a mention that is alone is one. `outputs` are those of `tfnlp.models.Coreference`.
    """
    mention = outputs["span_logits"] > 0  # [B, K]
    antecedents = outputs["antecedents"]  # [B, K, A]
    allowed = tf.gather(mention, antecedents, batch_dims=1) & mention[..., None]
    scores = tf.where(allowed, outputs["antecedent_logits"], NEVER)
    best = tf.argmax(scores, -1, output_type="int32")
    own = tf.zeros_like(antecedents[..., 0]) + tf.range(tf.shape(mention)[1])
    parent = tf.gather(antecedents, best, batch_dims=2)
    parent = tf.where(tf.reduce_max(scores, -1) > 0, parent, own)
    for _ in range(_HOPS):
        parent = tf.gather(parent, parent, batch_dims=1)
    if not singletons:
        joined = tf.cast(mention & (parent != own), tf.int32)
        first = tf.cast(tf.equal(parent[:, None], own[..., None]), tf.int32)  # [B, K, K]
        mention &= (joined > 0) | (tf.reduce_sum(first * joined[:, None], -1) > 0)
    roots = tf.cast(mention & (parent == own), tf.int32)
    number = tf.gather(tf.cumsum(roots, axis=1) - 1, parent, batch_dims=1)
    return tf.where(mention, number, -1)


def _bytes(text: str) -> np.ndarray:
    """Return for each place in a text how many bytes precede it."""
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    sizes = 1 + (points > 0x7F).astype(int) + (points > 0x7FF) + (points > 0xFFFF)
    return np.concatenate([[0], np.cumsum(sizes)])


def _clusters(prediction: Prediction) -> Clusters:
    return tuple(tuple(map(tuple, cluster)) for cluster in prediction["clusters"])


def _of_rows(rows: Sequence[report.Row]) -> Measures:
    return coreference_scores([r["gold"] for r in rows], [_clusters(r) for r in rows])


def _coloured(text: str, clusters: Clusters) -> report.Cell:
    """Return a text with its mentions marked by cluster, the innermost where they nest."""
    several = [c for c in clusters if len(c) > 1]
    numbers = np.full(len(text), -1)
    spans = sorted(
        ((start, end, n) for n, c in enumerate(several) for start, end in c),
        key=lambda span: span[0] - span[1],
    )
    for start, end, number in spans:
        numbers[start:end] = number
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(text)]
    cell: report.Cell = []
    for start, end in zip(bounds, bounds[1:], strict=False):
        number = int(numbers[start])
        cell.append((text[start:end], None if number < 0 else f"cluster{number % _COLOURS}"))
        if number >= 0:
            cell.append((f" {number + 1}", "gold"))
    return cell
