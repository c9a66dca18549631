"""Vectors of sentences: near for texts that belong together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.metrics import roc_auc_score

from tfnlp.data.labelled.examples import RelatedRows
from tfnlp.settings.tasks import EmbedTaskSettings
from tfnlp.tasks.similarity import regression
from tfnlp.tasks.task import Task

_KINDS = {"number": "rated pairs", "class": "pairs with a class", None: "texts without labels"}
CUTOFFS = (1, 5, 20)
_BLOCK = 1024  # queries at a time
_GAIN = 10  # ranks that nDCG looks at
_PART = 4096  # texts that are tokenized at a time


class Embed(Task):
    """Vectors of sentences: near for texts that belong together. Its run is an encoder."""

    name = "embed"
    Settings = EmbedTaskSettings
    form = RelatedRows()
    hint = (
        "vectors of texts: tfnlp embed --model {folder} --input FILE --output vectors.npy\n"
        "measures on other pairs: tfnlp evaluate --model {folder} --pairs FILE"
    )


@dataclasses.dataclass(frozen=True)
class Lesson:
    """Rows of texts with what is to be learnt of them.

    Attributes:
        objective: One of `OBJECTIVES`.
        rows: N rows of S texts.
        labels: Of "cosine" the ratings, from 0 for the lowest to 1; of "softmax" the numbers of
            the classes; else None.
        classes: Names, of "softmax".
    """

    objective: str
    rows: list[tuple[str, ...]]
    labels: list[float] | list[int] | None = None
    classes: tuple[str, ...] = ()

    @property
    def loss(self) -> str:
        """The loss of `tfnlp.tasks.SentenceTraining`."""
        return "ranking" if self.objective == "simcse" else self.objective


def lesson_of(examples: Sequence[Any], objective: str | None, name: str) -> Lesson:
    """Return what is learnt of examples, all with as many texts and labels of one kind.

    `name` is that of the examples, for messages. Without an objective: cosine for rated pairs,
    softmax for pairs with a class, SimCSE for single texts, else ranking.
    """
    check_alike(examples, name)
    kind, texts = kind_of(examples[0]), len(examples[0].segments)
    by_kind = {"number": "cosine", "class": "softmax", None: "simcse" if texts == 1 else "ranking"}
    objective = objective or by_kind[kind]
    rows = [example.segments for example in examples]
    if objective == "simcse":
        return Lesson(
            objective, [(text, text) for text in dict.fromkeys(t for r in rows for t in r)]
        )
    if texts < 2:
        raise ValueError(f"{name} has single texts, which `objective` simcse is for")
    labels = [example.label for example in examples]
    if objective == "cosine" and kind == "number":
        low, high = min(labels), max(labels)
        if low == high:
            raise ValueError(f"{name} has the rating {low:g} alone; give pairs of several")
        return Lesson(objective, rows, [(label - low) / (high - low) for label in labels])
    if objective == "softmax" and kind == "class":
        classes = tuple(sorted(set(labels)))
        if len(classes) < 2:
            raise ValueError(f"{name} has the class {classes[0]} alone; give pairs of several")
        return Lesson(objective, rows, [classes.index(label) for label in labels], classes)
    if objective == "ranking" and kind == "class":
        return Lesson(objective, _entailed(examples, name))
    if objective == "ranking" and kind is None:
        return Lesson(objective, rows)
    raise ValueError(f"{name} has {_KINDS[kind]}, which `objective` {objective} can't learn from")


def kind_of(example: Any) -> str | None:
    """Return "number", "class" or None, by the label."""
    if example.label is None:
        return None
    return "class" if isinstance(example.label, str) else "number"


def check_alike(examples: Sequence[Any], name: str) -> None:
    """Check that all examples have as many texts as the first one, and labels of one kind."""
    first = examples[0]
    for number, example in enumerate(examples, 1):
        if len(example.segments) != len(first.segments):
            raise ValueError(
                f"{name}, example {number} has {len(example.segments)} texts, the first one "
                f"{len(first.segments)}"
            )
        if kind_of(example) != kind_of(first):
            raise ValueError(
                f"{name}, example {number} has the label {example.label!r}, the first one "
                f"{first.label!r}; expected numbers, classes or none in all"
            )


def _entailed(examples: Sequence[Any], name: str) -> list[tuple[str, ...]]:
    """Return (premise, entailed, contradicting) texts; without contradictions pairs."""
    found: dict[str, dict[str, list[str]]] = {}
    for example in examples:
        premise, hypothesis = example.segments[:2]
        found.setdefault(premise, {}).setdefault(example.label, []).append(hypothesis)
    triplets, pairs = [], []
    for premise, by_class in found.items():
        entailed, refuted = (by_class.get(c, []) for c in ("entailment", "contradiction"))
        pairs += [(premise, text) for text in entailed]
        count = len(refuted)
        triplets += [(premise, e, refuted[i % count]) for i, e in enumerate(entailed) if count]
    if not pairs:
        raise ValueError(f"{name} has no pair of the class entailment, which ranking learns from")
    return triplets or pairs


def encode_texts(
    reader: Any, rows: Sequence[Sequence[str]], max_length: int
) -> tuple[dict[str, list[np.ndarray]], np.ndarray, int]:
    """Return the model's inputs of rows of S texts, numbers of the texts, and how many are cut.

    The inputs are columns by name, for each row int32 `[S, n]`, n the length of its longest text;
    the numbers, int32 `[N, S]`, are equal for equal texts, and those that are cut are distinct.
    """
    numbers = {text: n for n, text in enumerate(dict.fromkeys(t for row in rows for t in row))}
    texts, found, cut = list(numbers), [], 0
    for first in range(0, len(texts), _PART):
        ids, _, _ = reader.read([tf.constant(texts[first : first + _PART], "string")])
        packed = {name: x.numpy() for name, x in reader.pack(ids, max_length).items()}
        cut += int(packed["is_cut"].sum())
        sizes = packed["input_mask"].sum(1)
        names = [name for name in packed if packed[name].ndim == 2]
        found += [{n: packed[n][i, :size] for n in names} for i, size in enumerate(sizes)]
    places = np.array([[numbers[text] for text in row] for row in rows], np.int32)  # [N, S]
    columns: dict[str, list[np.ndarray]] = {name: [] for name in found[0]}
    for row in places:
        longest = max(1, *(len(found[i]["input_mask"]) for i in row))
        for name, column in columns.items():
            parts = [np.pad(x, (0, longest - len(x))) for x in (found[i][name] for i in row)]
            column.append(np.stack(parts).astype(np.int32))  # [S, n]
    return columns, places, cut


def main_sentence_metric(examples: Sequence[Any]) -> str:
    """Return the name of the measure that picks the best checkpoint."""
    label = examples[0].label
    return "mrr" if label is None else "auc" if isinstance(label, str) else "spearman"


def score_sentences(examples: Sequence[Any], vectors: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the measures of vectors on pairs of texts, by what the pairs are.

    Rated pairs: `spearman` and `pearson` of the cosines with the ratings. Pairs with a class as in
    SNLI: `auc`, the share of pairs of an entailment and another pair in which the entailment has
    the larger cosine. Pairs alone: `recall@1`, `recall@5`, `recall@20`, `mrr` and `ndcg@10` of the
    second text of each among the second texts of all, see `retrieval`. `vectors` has a float32
    `[D]` for each text.

    Raises:
        ValueError: for examples of one text, or classes of which none is "entailment" or all are.
    """
    if any(len(example.segments) < 2 for example in examples):
        raise ValueError("expected pairs of texts to measure on; got a single text")
    label = examples[0].label
    if label is None:
        return retrieval([example.segments[:2] for example in examples], vectors)
    u, v = (unit_rows([vectors[e.segments[n]] for e in examples]) for n in range(2))
    cosines = np.sum(u * v, 1)
    labels = [example.label for example in examples]
    if isinstance(label, str):
        right = [name == "entailment" for name in labels]
        if len(set(right)) < 2:
            raise ValueError(
                "expected pairs with the class entailment and others; got only "
                f"{', '.join(sorted(set(labels))[:5])}"
            )
        return {"auc": float(roc_auc_score(right, cosines))}
    found = regression(labels, cosines.tolist())
    return {name: found[name] for name in ("spearman", "pearson")}


def retrieval(
    pairs: Sequence[Sequence[str]], vectors: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Return how well the second text of each pair is found by the first one.

    The rank of a text is one more than the number of other texts whose cosine with the query is as
    large or larger; other right texts of the same query do not count. `recall@k` is the share of
    ranks up to k, `mrr` the mean of 1 / rank, `ndcg@10` the mean of `1 / log2(1 + rank)`, 0 above
    rank 10. Each distinct second text of the pairs is one of those that are ranked.
    """
    documents = {text: place for place, text in enumerate(dict.fromkeys(d for _, d in pairs))}
    right: dict[str, set[int]] = {}
    for query, text in pairs:
        right.setdefault(query, set()).add(documents[text])
    keys = unit_rows([vectors[text] for text in documents])  # [M, D]
    ranks = []
    for first in range(0, len(pairs), _BLOCK):
        part = pairs[first : first + _BLOCK]
        scores = unit_rows([vectors[query] for query, _ in part]) @ keys.T  # [b, M]
        for row, (query, text) in zip(scores, part, strict=True):
            own = documents[text]
            value = row[own]
            row[list(right[query])] = -np.inf
            ranks.append(1 + int(np.sum(row >= value)))
    ranks = np.array(ranks)
    found = {f"recall@{k}": float(np.mean(ranks <= k)) for k in CUTOFFS}
    gains = np.where(ranks <= _GAIN, 1 / np.log2(1 + ranks), 0.0)
    return {**found, "mrr": float(np.mean(1 / ranks)), f"ndcg@{_GAIN}": float(np.mean(gains))}


def unit_rows(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return vectors divided by their norms; zeros stay."""
    rows = np.asarray(rows, np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
