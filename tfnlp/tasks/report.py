"""What the page of a run shows of its task beside charts: tables, and cells of examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.metrics import precision_recall_fscore_support

from tfnlp.tasks.charts import shown_classes

Row = Mapping[str, Any]  # an example and its prediction, see `HeadTask.report_row`
# (text, mark) pairs: the mark is None, "right", "wrong", "gold" or "guess". The page escapes them.
Cell = list[tuple[str, str | None]]

_LONGEST = 900  # characters of a text that are shown; predictions.jsonl has it whole


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of strings."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


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
