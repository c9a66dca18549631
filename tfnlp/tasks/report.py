"""What the page of a run shows of its task, as data: charts, tables, and cells of examples."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.metrics import precision_recall_fscore_support

Row = Mapping[str, Any]  # an example and its prediction, see `HeadTask.report_row`
# (text, mark) pairs: the mark is None, "right", "wrong", "gold" or "guess". The page escapes them.
Cell = list[tuple[str, str | None]]

SHOWN = 20  # classes in a table or a picture
_LONGEST = 900  # characters of a text that are shown; predictions.jsonl has it whole


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Gold and predicted classes, one each for each decision; `labels` in their order, if any."""

    truth: Sequence[str]
    guess: Sequence[str]
    labels: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Bars:
    """Precision and recall by label, of the labels that are shown, with their counts."""

    names: Sequence[str]
    counts: Mapping[str, int]
    measures: Mapping[str, float]  # "precision/NAME" and "recall/NAME"


@dataclasses.dataclass(frozen=True)
class Scatter:
    """Gold and predicted scores; on the same scale the line where they are equal is drawn."""

    gold: Sequence[float]
    guess: Sequence[float]
    title: str = "Predicted and gold scores"
    across: str = "gold"
    up: str = "predicted"
    same_scale: bool = True


@dataclasses.dataclass(frozen=True)
class Histogram:
    """Values of groups, by name; their bars stand one on the other, or `overlay` each other."""

    title: str
    axis: str
    groups: Mapping[str, Sequence[float]]
    range: tuple[float, float] | None = None
    overlay: bool = False


@dataclasses.dataclass(frozen=True)
class Map:
    """Texts as points of a plane; a point, or a pair of them, is of a group or has a number."""

    title: str
    places: Sequence[Sequence[float]]  # [N, 2]
    texts: Sequence[str]  # N
    groups: Sequence[Any]  # N, of pairs N / 2: names, numbers, or None
    pairs: bool = False


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Answers, gold and predicted; "" is none."""

    gold: Sequence[str]
    guess: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Attention:
    """What T tokens of an example look at, in each of L layers the mean of its heads."""

    of: str  # "mistake", "example"
    tokens: Sequence[str]
    layers: Sequence[Sequence[Sequence[float]]]  # [L, T, T], row t says at what token t looks


Chart = Confusion | Bars | Scatter | Histogram | Lengths | Map | Attention


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of strings."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def shown_classes(
    truth: Sequence[str], guess: Sequence[str], labels: Sequence[str] = ()
) -> list[str]:
    """Return the classes in order, or the 20 commonest if there are more."""
    counts = collections.Counter(truth)
    found = set(truth) | set(guess)
    names = list(labels) if labels else sorted(found)
    names += sorted(found - set(names))
    if len(names) > SHOWN:
        names = sorted(names, key=lambda name: -counts[name])[:SHOWN]
    return names


def by_class(truth: Sequence[str], guess: Sequence[str], labels: Sequence[str] = ()) -> Table:
    """Return precision, recall and F1 of each class, the 20 commonest."""
    names = shown_classes(truth, guess, labels)
    columns = precision_recall_fscore_support(truth, guess, labels=names, zero_division=0)
    rows = [
        [name, f"{precision:.3f}", f"{recall:.3f}", f"{f1:.3f}", str(count)]
        for name, precision, recall, f1, count in zip(names, *columns, strict=True)
    ]
    return Table("By class", ["class", "precision", "recall", "F1", "in the data"], rows)


def figure(value: float | None) -> str:
    """Return a measure as text; what was not measured is a dash."""
    return "–" if value is None else f"{value:.3f}"


def texts_cell(texts: Sequence[str]) -> Cell:
    """Return texts, a line each."""
    return [(short("\n".join(texts)), None)]


def short(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def marked(context: str, golds: Sequence[str], guess: str) -> Cell:
    """Return the part of a context around gold and predicted answers, with both marked.

    The first place of each string is marked; where they overlap, the gold one wins.
    """
    places = []
    for text, mark in [*((gold, "right") for gold in golds), (guess, "wrong")]:
        start = context.find(text) if text else -1
        end = start + len(text)
        if start >= 0 and all(end <= left or right <= start for left, right, _ in places):
            places.append((start, end, mark))
    places.sort()
    begin = max(0, places[0][0] - _LONGEST // 4) if places else 0
    last = min(len(context), (places[-1][1] if places else begin) + _LONGEST // 4)
    pieces, position = [("… ", None)] if begin else [], begin
    for start, end, mark in places:
        pieces += [(context[position:start], None), (context[start:end], mark)]
        position = end
    return [*pieces, (context[position:last], None), *([(" …", None)] * (last < len(context)))]
