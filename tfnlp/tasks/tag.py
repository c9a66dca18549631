"""A tag for each word: parts of speech, entities; and what the tasks of words share."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.tag_rows import TagRows
from tfnlp.data.labelled.tag_schemes import (
    OUTSIDE,
    TaggedSentence,
    as_bio,
    is_bio,
    scheme_of,
    split_sentence,
)
from tfnlp.layers import CRF
from tfnlp.settings.tasks import TagSettings
from tfnlp.tasks import report
from tfnlp.tasks.baselines import Baseline, commonest
from tfnlp.tasks.entities import entities, tagging, type_scores
from tfnlp.tasks.playground import Field, Playground
from tfnlp.tasks.sequences import (
    WINDOW,
    Arrays,
    Columns,
    Encoded,
    EncodedExamples,
    Targets,
    strings,
    windows_of,
)
from tfnlp.tasks.tag_decoding import chain_scores, decode_tags, word_logits
from tfnlp.tasks.task import TEXTS, HeadTask, Inputs, Measures, Outputs, Prediction, Tensors
from tfnlp.text.words import (
    MARKS,
    SPACES,
    characters,
    is_splitter,
    with_whole,
    words_of_texts,
    words_with_offsets,
)

# Factors of the learning rate of a CRF's scores. Adam moves a weight by about the rate in a step:
# those of encoders, 3e-5 to 3e-4, would leave the scores near 0.
_CRF_RATES = {True: 100.0, False: 10.0}  # of a whole encoder: True; of a network on features: False


class WordPlayground(Playground):
    """A sentence with a tag for each word on a page."""

    gives = {"tags", "tokens", "probabilities", "starts", "ends"}
    example = "Ada Lovelace lived in London ."

    def shown(self, row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        count = sum(token != "" for token in found["tokens"])
        names = ("tokens", "tags", "probabilities", "starts", "ends")
        shown = {name: found[name][:count] for name in names}
        places = list(zip(shown["starts"], shown["ends"], strict=True))
        return {**shown, "spans": spans_of(shown["tags"], places)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordTask(HeadTask):
    """A tag for each word of a sentence, which is read in windows.

    Args:
        labels: names of the tags, in the order of the model's outputs.
        stride: pieces from one window to the next.
        crf: the rate of a CRF over the tags, see `tfnlp.layers.CRF`; 0: each tag on its own.
        splitter: how texts are split into words, as they were in training: "marks", also with
            words that stay whole, or "spaces", see `tfnlp.text.words.words_with_offsets`.
    """

    output = "tag"
    pipeline = "token-classification"

    labels: tuple[str, ...] = ()
    stride: int = 64
    crf: float = 0.0
    splitter: str = SPACES

    def check(self) -> None:
        if not is_splitter(self.splitter):
            raise ValueError(f"splitter={self.splitter!r} must be {MARKS!r} or {SPACES!r}")
        if not self.labels:
            raise ValueError("labels=() must be one or more; give examples that have tags")
        if self.stride < 1:
            raise ValueError(f"stride={self.stride} must be at least 1")
        if not self.crf >= 0:
            raise ValueError(f"crf={self.crf} must be 0, or a rate above it")

    @classmethod
    def learnt_from(cls, examples: Sequence[Any], settings: Any, **values: Any) -> Self:
        labels = tuple(sorted({tag for e in examples for tag in e.tags}))
        if len(labels) < 2:
            raise ValueError(f"labels={labels!r} must be two or more; give examples of others too")
        return cls(
            labels=labels,
            stride=settings.stride,
            crf=_CRF_RATES[values["whole"]] if settings.crf else 0.0,
            splitter=(
                SPACES
                if all(e.text is None for e in examples)
                else with_whole(MARKS, settings.marks)
            ),
            max_length=values["max_length"],
        )

    @classmethod
    def of_checkpoint(cls, labels: Sequence[str], positions: int) -> Self:
        return cls(labels=tuple(labels), stride=128, max_length=min(512, positions))

    def some_label(self, example: Any) -> Any:
        return dataclasses.replace(example, tags=(None,) * len(example.words))

    def words_of(self, example: Any, split: Callable[[str], str]) -> Iterator[Sequence[str]]:
        yield example.words

    @classmethod
    def texts_of(cls, example: Any) -> list[str]:
        return [" ".join(example.words)]

    @classmethod
    def classes_of(cls, example: Any) -> set[str]:
        return set(example.tags)

    @classmethod
    def label_counts(cls, examples: Sequence[Any]) -> collections.Counter:
        return collections.Counter(tag for example in examples for tag in example.tags)

    @property
    def only_module(self) -> str:
        return "a CRF over its tags" if self.crf else ""

    @property
    def example_settings(self) -> dict[str, Any]:
        return {"words": words_of_texts(self.splitter)}

    @property
    def head(self) -> dict[str, Any]:
        return {**super().head, **({"crf": self.crf} if self.crf else {})}

    def inputs_of(self, examples: Sequence[Any], first: int = 0) -> dict[str, Any]:
        words = [list(e.words) for e in examples]
        return {"words": tf.ragged.constant(words, dtype="string", ragged_rank=1)}

    @property
    def signatures(self) -> dict[str, dict[str, tf.TensorSpec]]:
        lengths = tf.TensorSpec([None], "int32", name="sequence_len")
        return {
            **dict.fromkeys(("serving_default", TEXTS), {"text": strings("text")}),
            "tokens": {"tokens": strings("tokens", 2), "sequence_len": lengths},
        }

    def words_in(self, inputs: Mapping[str, Any]) -> tf.RaggedTensor:
        """Return the words of the inputs, strings ragged `[B, (W)]`."""
        if "words" in inputs:
            return inputs["words"]
        if "text" in inputs:
            return words_with_offsets(inputs["text"], self.splitter)[0]
        width = tf.shape(inputs["tokens"])[1]
        lengths = tf.clip_by_value(inputs["sequence_len"], 0, width)
        words = tf.RaggedTensor.from_tensor(inputs["tokens"], lengths)
        return words.with_row_splits_dtype(tf.int64)

    def pieces_of(self, reader: Any, inputs: Inputs) -> tuple[tf.RaggedTensor, Encoded]:
        """Return the pieces of words as if joined by spaces, and what `encode` says of words."""
        words = self.words_in(inputs)
        places = tf.ragged.range(words.row_lengths())  # a space precedes every word but the first
        after_space = places.with_values(places.values > 0)
        _, pieces, numbered = reader.read([], words, after_space)
        return pieces, {"words": numbered, "lengths": words.row_lengths()}

    def targets(self, encoded: EncodedExamples, examples: Sequence[Any]) -> Targets:
        index = {label: i for i, label in enumerate(self.labels)}
        tags = np.array([index.get(tag, -1) for e in examples for tag in e.tags] + [-1], np.int32)
        labels, weights = [], []
        columns = (encoded.windows[name] for name in WINDOW)
        for word, head, best in zip(*columns, strict=True):
            found = np.where(head & best, tags[word], -1)
            labels.append(np.maximum(found, 0))
            weights.append((found >= 0).astype(np.float32))
        return {"labels": labels, "weights": weights}, {}

    def decode(
        self, outputs: Outputs, encoded: Encoded, inputs: Inputs, crf: CRF | None
    ) -> Tensors:
        """Return `tags`, `probabilities` and `tokens`, "" and 0 at padding: `[B, T]` each.

        Of texts also `starts` and `ends`, where the words stand in characters, -1 at padding.
        """
        words = self.words_in(inputs)
        logits = word_logits(outputs["tag_logits"], encoded, tf.size(words.values))
        found = decode_tags(logits, words.row_splits, self.labels, crf)
        found["tokens"] = words.to_tensor("")
        if "text" in inputs:
            text, places = inputs["text"], words_with_offsets(inputs["text"], self.splitter)[1:]
            ends = (characters(text, place.to_tensor(-1)) for place in places)
            found.update(zip(("starts", "ends"), ends, strict=True))
        if "tokens" in inputs:  # as wide as the input
            more = [[0, 0], [0, tf.shape(inputs["tokens"])[1] - tf.shape(found["tags"])[1]]]
            padding = {tf.string: "", tf.float32: 0.0}
            found = {n: tf.pad(x, more, constant_values=padding[x.dtype]) for n, x in found.items()}
        return found

    def cut_to(self, example: Any, row: Prediction) -> Prediction:
        count = len(example.words)
        found: Prediction = {name: row[name][:count] for name in ("tags", "probabilities")}
        if example.text is not None:
            spans = spans_of(found["tags"], example.places())
            found.update(words=list(example.words), spans=spans)
        return found

    def shown(self, example: Any, prediction: Prediction) -> str:
        pairs = zip(example.words, prediction["tags"], strict=True)
        return " ".join(f"{word}/{tag}" for word, tag in pairs)

    def predicted_tags(self, predictions: Sequence[Prediction]) -> list[Sequence[str]]:
        """Return predicted tags, those that mark entities in BIO.

        A model of another library may have learnt another scheme.
        """
        marks = scheme_of(self.labels) is not None
        return [as_bio(p["tags"]) if marks else p["tags"] for p in predictions]

    def perfect(self, example: Any) -> Prediction:
        return {"tags": list(example.tags)}

    def distinct_answers(self, predictions: Sequence[Prediction]) -> set[str]:
        return {tag for prediction in predictions for tag in prediction["tags"]}

    def baselines(self, golds: Sequence[Any]) -> dict[str, Baseline]:
        return {"accuracy": commonest([tag for tags in golds for tag in tags])}

    def soft_outputs(self, encoded: EncodedExamples, outputs: Outputs) -> Arrays:
        """Return logits `[W, K]` of all words, zeros of one that is not read."""
        logits = np.zeros((int(encoded.splits[-1]), len(self.labels)), np.float32)
        columns = (outputs["tag_logits"], encoded.windows["token_word"], encoded.chosen)
        for window, words, chosen in zip(*columns, strict=True):
            logits[words[chosen]] = window[: len(words)][chosen]
        return {"soft_logits": logits}

    def soft_columns(self, encoded: EncodedExamples, soft: Arrays, labelled: int) -> Targets:
        """Return columns; examples without labels have tags that are not learnt."""
        logits = soft["soft_logits"]
        columns: Columns = {"soft_logits": [], "soft_weights": []}
        for words, chosen in zip(encoded.windows["token_word"], encoded.chosen, strict=True):
            of_pieces = np.where(chosen[:, None], logits[words], 0)  # [n, K]
            columns["soft_logits"].append(of_pieces.T)  # [K, n]
            columns["soft_weights"].append(of_pieces.any(1).astype(np.float32))
        return columns, {}

    def given(self, example: Any) -> dict[str, Any]:
        if example.text is not None:
            return {"text": example.text}  # the prediction has its words
        return {"words": list(example.words)}

    worst_first = "most words are wrong"
    error_columns = ("wrong", "sentence, with predicted and gold tag of the wrong words")

    def chart(self, rows: Sequence[report.Row]) -> report.Figure:
        return report.confusion(*_classes(rows), () if is_bio(self.labels) else self.labels)

    def tables(self, rows: Sequence[report.Row]) -> list[report.Table]:
        if not is_bio(tag for row in rows for tag in row["gold"]):
            return [report.by_class(*_classes(rows), self.labels)]
        scores = type_scores([row["gold"] for row in rows], [row["tags"] for row in rows])
        scores = sorted(scores.items(), key=lambda item: (-item[1]["gold"], item[0]))
        cells = [
            [kind, *(report.measure(s.get(name)) for name in ("precision", "recall", "f1")),
             *(str(s[name]) for name in ("gold", "predicted"))]
            for kind, s in scores[: report.SHOWN]
        ]  # fmt: skip
        head = ["type", "precision", "recall", "F1", "in the data", "predicted"]
        return [report.Table("By type of entity", head, cells)]

    def is_wrong(self, row: report.Row) -> bool:
        return self.badness(row) > 0

    def badness(self, row: report.Row) -> float:
        return sum(a != b for a, b in zip(row["gold"], row["tags"], strict=True))

    def error_cells(self, row: report.Row) -> list[report.Cell]:
        cell: report.Cell = []
        columns = (row["words"], row["gold"], row["tags"])
        for word, gold, guess in zip(*columns, strict=True):
            if gold == guess:
                cell.append((f"{word} ", None))
            else:
                space = (" ", None)
                cell += [(word, "wrong"), space, (guess, "guess"), space, (gold, "gold"), space]
        return [[(f"{self.badness(row)} of {len(row['words'])}", None)], cell]

    def files(self, crf: CRF | None) -> dict[str, Any]:
        scores = chain_scores(self.labels, crf).items()
        return {"transitions.json": {name: np.asarray(x).tolist() for name, x in scores}}


class TagPlayground(WordPlayground):
    """The tags of words on a page."""

    title = "Tag"
    button = "Tag"
    help = "The tag of each word."
    takes = ({"text"},)
    fields = (
        Field("text", "Texts, one a line", "lines",
              WordPlayground.example),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tag(WordTask):
    """A tag for each word: parts of speech, entities."""

    name = "tag"
    Settings = TagSettings
    form = TagRows()
    playground = TagPlayground
    does = "tag the words of a sentence"
    count_of_texts = 1
    takes = "a text"

    def example_of(self, texts: Sequence[str], number: int) -> TaggedSentence:
        return split_sentence(texts[0], self.splitter)

    def encode(self, reader: Any, inputs: Inputs, whole: bool) -> Encoded:
        pieces, words = self.pieces_of(reader, inputs)
        return {**windows_of(reader, pieces, None, self.max_length, self.stride), **words}

    @property
    def main_measure(self) -> str:
        return "f1" if is_bio(self.labels) else "accuracy"  # F1 of entities

    def measures(self, examples: Sequence[Any], predictions: Sequence[Prediction]) -> Measures:
        """Return accuracy and, of BIO tags, precision, recall and f1 of the entities."""
        return tagging(self.golds(examples), self.predicted_tags(predictions))


def _classes(rows: Sequence[report.Row]) -> tuple[list[str], list[str]]:
    """Return gold and predicted classes of words; that of a word in an entity is its type."""
    tags, predicted = ([tag for row in rows for tag in row[n]] for n in ("gold", "tags"))
    if is_bio(tags):
        tags, predicted = (
            [tag[2:] if tag[:2] in ("B-", "I-") else tag for tag in column]
            for column in (tags, predicted)
        )
    return tags, predicted


def spans_of(tags: Sequence[str], places: Sequence[tuple[int, int]]) -> list[list[Any]]:
    """Return `[start, end, type]` of the entities that tags mark, of others of the tagged words.

    `places` are those of the words; "O" is no tag.
    """
    if scheme_of(tags) is None:
        return [[*place, tag] for place, tag in zip(places, tags, strict=True) if tag != OUTSIDE]
    return [[places[a][0], places[b - 1][1], kind] for kind, a, b in entities(as_bio(tags))]
