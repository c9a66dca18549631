"""Texts that belong together: what sentence vectors are learnt from and measured on.

one text            a sentence, to be compared with itself under dropout (SimCSE)
two and more        a text, one that belongs to it, and any number that do not
two and a number    a pair that people rated
two and a class     a premise, a hypothesis and their relation, as in SNLI
"""

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import Any, ClassVar

from tfnlp.data.labelled.examples import TaskExample, text_examples
from tfnlp.data.labelled.forms import Record, RowForm
from tfnlp.data.labelled.rows import (
    BadRow,
    TaskData,
    checked_text,
    file_kind,
    filled_lines,
    gather,
)
from tfnlp.data.labelled.tables import (
    LABEL_COLUMNS,
    TABLES,
    TEXT_COLUMNS,
    Reading,
    Table,
    find_columns,
)

COLUMNS = (
    ("anchor", "positive", "negative"),
    ("anchor", "positive"),
    ("query", "positive", "negative"),
    ("query", "positive"),
    ("question", "context"),
    ("question", "answer"),
    *TEXT_COLUMNS,
)
RELATIONS = ("entailment", "neutral", "contradiction")


class RelatedRows(RowForm):
    """Texts that belong together, with or without a number or a class of the first two.

    `.tsv`, `.csv` and `.jsonl` are tables. All other files have a text a line; with `text` or
    `label` they are tables with tabs. `text` is any number of columns, the first two a pair,
    further ones hard negatives; None: also anchor or query, positive and negative, question and
    context.
    """

    expected: ClassVar[str] = (
        "a text, (text, its match, further texts ...) or (text, text, number or class)"
    )
    fields: ClassVar[tuple[str, ...]] = ("text_a", "text_b", "label")
    example: ClassVar[type] = TaskExample
    label: ClassVar[str] = ""  # there need be none

    def is_file(self, first: object, labelled: bool) -> bool:
        return super().is_file(first, labelled) and not _is_text(first)

    def fields_of(self, row: object, labelled: bool) -> Record:
        return [row] if isinstance(row, str) else super().fields_of(row, labelled)

    def names_of(self, row: list[Any], labelled: bool) -> Sequence[str]:
        """Return names for texts, and for a label if the last field is no text."""
        last = row[-1] if row else None
        has_label = len(row) > 1 and (
            isinstance(last, int | float) or (len(row) == 3 and last in RELATIONS)
        )
        texts = [f"text_{n}" for n in range(len(row) - has_label)]
        return [*texts, *(["label"] if has_label else [])]

    def of_file(self, path: str, how: Reading) -> TaskData:
        if how.columns or file_kind(path) in TABLES:
            return super().of_file(path, how)

        def make(line: str) -> TaskExample:
            return TaskExample((checked_text(line, "its text").strip(),), None)

        return gather(path, filled_lines(path), make, how.skip, "a text a line")

    def of_table(self, table: Table, how: Reading) -> TaskData:
        header, label = table.header or (), how.label
        numbered = tuple(name for name in header if str(name).startswith("text_"))
        defaults = (*COLUMNS, *([numbered] if numbered else []))
        if label is None:
            label = next((name for name in LABEL_COLUMNS if name in header), None)
        how = dataclasses.replace(how, label=label, labelled=how.label is not None)
        chosen, answer = find_columns(table, how, defaults, labels=())
        return text_examples(table, how, chosen, answer, _label, may_be_blank=False)


def _is_text(row: object) -> bool:
    """Return whether a string is a text, not the name or pattern of a file."""
    if not isinstance(row, str) or isinstance(row, os.PathLike) or row.startswith("tfds:"):
        return False
    if os.path.exists(os.path.expanduser(row)):
        return False
    looks_like_a_path = os.sep in row or file_kind(row) or any(mark in row for mark in "*?[")
    return not looks_like_a_path or any(map(str.isspace, row))


def _label(found: object) -> str | float:
    """Return a number as a float, a class as its name."""
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise BadRow(f"its label must be a number or a class; got {found!r:.60}")
    try:
        number = float(found)
    except (ValueError, OverflowError):
        return checked_text(str(found), "its label")
    if not math.isfinite(number):
        raise BadRow(f"its label must be a finite number; got {found!r:.60}")
    return number
