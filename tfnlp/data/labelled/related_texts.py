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

from tfnlp.data.labelled.examples import TaskExample, label_cell
from tfnlp.data.labelled.rows import (
    BadRow,
    LeftOut,
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
    cell,
    find_columns,
    read_table,
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


def related_file(path: str, how: Reading) -> TaskData:
    """Return the examples of a table, or of a text file with a text a line; see `read_task`."""
    if not how.columns and file_kind(path) not in TABLES:

        def make(line: str) -> TaskExample:
            return TaskExample((checked_text(line, "its text").strip(),), None)

        return gather(path, filled_lines(path), make, how.skip)
    return related_table(read_table(path, how.columns), how)


def related_table(table: Table, how: Reading) -> TaskData:
    """Return the examples of rows: any number of texts, and a label if there is a column of it."""
    header, label = table.header or (), how.label
    numbered = tuple(name for name in header if str(name).startswith("text_"))
    defaults = (*COLUMNS, *([numbered] if numbered else []))
    if label is None:
        label = next((name for name in LABEL_COLUMNS if name in header), None)
    how = dataclasses.replace(how, label=label, labelled=how.label is not None)
    chosen, answer = find_columns(table, how, defaults, labels=())

    def make(row: dict | list) -> TaskExample:
        texts = [checked_text(cell(row, column), f"text {column!r}") for column in chosen]
        found = label_cell(row, answer, labelled=answer is not None)
        if isinstance(found, str) and found in how.drop:
            raise LeftOut(f"its label {found!r} is one to leave out")
        return TaskExample(tuple(value.strip() for value in texts), _label(found))

    return gather(table.source, table.rows, make, how.skip)


def fields_of(row: Sequence[object]) -> list[str]:
    """Return names for the fields of a tuple: texts, and a label if the last one is no text."""
    last = row[-1] if row else None
    labelled = len(row) > 1 and (
        isinstance(last, int | float) or (len(row) == 3 and last in RELATIONS)
    )
    texts = [f"text_{n}" for n in range(len(row) - labelled)]
    return [*texts, *(["label"] if labelled else [])]


def is_text(row: object) -> bool:
    """Return whether a string is a text, not the name or pattern of a file."""
    if not isinstance(row, str) or row.startswith("tfds:"):
        return False
    if os.path.exists(os.path.expanduser(row)):
        return False
    looks_like_a_path = os.sep in row or file_kind(row) or any(mark in row for mark in "*?[")
    return not looks_like_a_path or any(map(str.isspace, row))


def _label(found: object) -> str | float | None:
    """Return a number as a float, a class as its name."""
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise BadRow(f"its label must be a number or a class; got {found!r:.60}")
    try:
        number = float(found)
    except (ValueError, OverflowError):
        return checked_text(str(found), "its label")
    if not math.isfinite(number):
        raise BadRow(f"its label must be a finite number; got {found!r:.60}")
    return number
