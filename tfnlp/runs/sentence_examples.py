"""What a run that trains sentence vectors learns from: the loss that fits its examples."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from tfnlp.runs.finetune_examples import shown_source

_KINDS = {"number": "rated pairs", "class": "pairs with a class", None: "texts without labels"}


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


def lesson_of(examples: Sequence[Any], objective: str | None, source: Any) -> Lesson:
    """Return what is learnt of examples, all with as many texts and labels of one kind.

    Without an objective: cosine for rated pairs, softmax for pairs with a class, SimCSE for single
    texts, else ranking.
    """
    name = f"`train` {shown_source(source)}"
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
