"""Examples of fine-tuning tasks, and the files of those with one text or two.

In all formats a row that can't be read is an error with its file and line: without the row, the
task would be scored on other data. `tfnlp.data.read_task` can leave such rows out and list them.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfnlp.data.labelled.rows import BadRow, LeftOut, TaskData, checked_text, file_lines, gather
from tfnlp.data.labelled.tables import Column, Row, cell, find_columns, read_table


@dataclass(frozen=True)
class TaskExample:
    """One example of a task.

    Attributes:
        segments: its text, or its two texts.
        label: the name of its class; a float score; or, with `choices`, the index of the right one.
            None if it is not known.
        choices: texts of which one fits `segments` best; () in other tasks.
    """

    segments: tuple[str, ...]
    label: str | float | int | None
    choices: tuple[str, ...] = ()


def read_classes(path: str, columns: Sequence[str | int] | None = None) -> list[TaskExample]:
    """Read texts with a class each.

    Args:
        path: a UTF-8 file; `.gz` is unpacked on the way.
        columns: None: lines of `label text`; else those of text and label, as in `read_pairs`.

    Raises:
        ValueError: a row without text or label; a file that has no examples or is not UTF-8.
        FileNotFoundError, OSError: no such file; a folder; a damaged or truncated gzip file.
    """
    if columns is None:
        return labelled_lines(path).examples
    _check_columns(columns, 2)
    return table_file("classify", path, [columns[0]], columns[1], drop=()).examples


def read_pairs(
    path: str,
    columns: Sequence[str | int] = ("sentence1", "sentence2", "label"),
    score: bool = False,
    drop: Sequence[str] = ("-",),
) -> list[TaskExample]:
    """Read pairs of texts with a class or a score each.

    Args:
        path: a table, see `tfnlp.data.read_task`.
        columns: those of both texts and of the label. Names are keys of the objects, or fields of
            the header, the first line. Numbers are fields, from 0, of a file without header. Other
            columns are ignored.
        score: the label is a number.
        drop: labels of rows to leave out; SNLI has "-" where its annotators did not agree.

    Raises:
        ValueError: a row that lacks a column, has an empty text or, with `score`, a label that is
            no number; a header without a column; a file without examples or that is not UTF-8.
        FileNotFoundError, OSError: no such file; a folder; a damaged or truncated gzip file.
    """
    _check_columns(columns, 3)
    task = "similarity" if score else "classify"
    return table_file(task, path, list(columns[:2]), columns[2], drop=drop).examples


def table_file(
    task: str,
    path: str,
    text: list[Column] | None = None,
    label: Column | None = None,
    skip: bool = False,
    labelled: bool = True,
    drop: Sequence[str] = ("-",),
) -> TaskData:
    """Return the `table_examples` of a `.tsv`, `.csv` or `.jsonl` file."""
    header, rows = read_table(path, text, label)
    return table_examples(task, path, header, rows, text, label, skip, labelled, drop)


def table_examples(
    task: str,
    source: str,
    header: list[Column] | None,
    rows: Iterable[Row],
    text: list[Column] | None,
    label: Column | None,
    skip: bool = False,
    labelled: bool = True,
    drop: Sequence[str] = ("-",),
) -> TaskData:
    """Return the examples of a table: see `read_task`, and `read_table` for header and rows."""
    chosen, answer = find_columns(source, header, text, label, labelled)
    if len(chosen) > 2:
        raise ValueError(f"text must name one or two columns; got {chosen!r}")

    def make(row: dict | list) -> TaskExample:
        texts = [checked_text(cell(row, column), f"text {column!r}") for column in chosen]
        found = label_cell(row, answer, labelled)
        if isinstance(found, str) and found in drop:
            if labelled:
                raise LeftOut(f"its label {found!r} is one to leave out")
            found = None
        if found is not None:
            found = _score(found) if task == "similarity" else _class_name(found)
        return TaskExample(tuple(value.strip() for value in texts), found)

    return gather(source, rows, make, skip)


def labelled_lines(path: str, skip: bool = False, labelled: bool = True) -> TaskData:
    """Return the examples of lines `label text`; with `labelled=False`, of lines that are texts."""

    def make(line: str) -> TaskExample:
        found, _, text = line.partition(" ") if labelled else (None, "", line)
        return TaskExample((checked_text(text, "its text").strip(),), found)

    rows = ((f"line {n}", line.strip()) for n, line in enumerate(file_lines(path), 1))
    return gather(path, ((where, line) for where, line in rows if line), make, skip)


def label_cell(row: dict | list, column: Column | None, labelled: bool) -> object:
    """Return the label of a row, without blanks around it; None if it has none."""
    if column is None:
        return None
    try:
        found = cell(row, column)
    except BadRow:
        if labelled:
            raise
        return None
    found = found.strip() if isinstance(found, str) else found
    if found is None or found == "":
        if labelled:
            raise BadRow("its label is empty")
        return None
    return found


def _class_name(found: object) -> str:
    if not isinstance(found, (str, int, float)):
        raise BadRow(f"its label must be a name; got {found!r:.60}")
    return checked_text(str(found), "its label")


def _score(found: object) -> float:
    try:
        score = math.nan if isinstance(found, bool) else float(found)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise BadRow(f"the score must be a number; got {found!r:.60}")
    return score


def _check_columns(columns: Sequence[Column], count: int) -> None:
    kinds = {type(column) for column in columns}
    if len(columns) != count or kinds not in ({str}, {int}) or kinds == {int} and min(columns) < 0:
        raise ValueError(
            f"columns must be {count} names, or {count} numbers from 0; got {tuple(columns)!r}"
        )
