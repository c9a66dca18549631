"""Examples with any number of labels: a list, a column with a separator, or columns of 0 and 1."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from tfnlp.data.labelled.examples import (
    TaskExample,
    TextRows,
    checked_label,
    class_name,
    marked_labels,
    one_or_two,
    texts_of_row,
)
from tfnlp.data.labelled.rows import BadRow, LeftOut, TaskData, file_kind, filled_lines, gather
from tfnlp.data.labelled.tables import (
    LABEL_COLUMNS,
    TABLES,
    TEXT_COLUMNS,
    Column,
    Reading,
    Row,
    Table,
    find_columns,
    given_cell,
)

SEPARATORS = ("|", ";", ",")
TEXTS = (*TEXT_COLUMNS, ("comment_text",))  # that of Jigsaw's comments
SET_COLUMNS = ("labels", *LABEL_COLUMNS)
_BITS = {0: False, 1: True, "0": False, "1": True, "0.0": False, "1.0": True}
_UNKNOWN = (-1, "-1", "-1.0")

_Labels = Callable[[dict | list], tuple[str, ...] | None]


class LabelSetRows(TextRows):
    """A text or two, and any number of labels.

    `.tsv`, `.csv` and `.jsonl` are tables. All other files have lines `__label__A __label__B text`,
    as for fastText, with labels anywhere; with `text` or `label` they are tables, too.

    `label` is one column, with a list or with names between separators, or several of 0 and 1.
    None: the first of labels, label, gold_label, score and similarity, else all columns that hold
    0 and 1 alone.
    """

    expected: ClassVar[str] = "(text, [label, ...]) or (text_a, text_b, [label, ...])"
    fields: ClassVar[tuple[str, ...]] = ("text_a", "text_b", "labels")
    has_several_columns: ClassVar[bool] = True

    def of_file(self, path: str, how: Reading) -> TaskData:
        if not how.columns and file_kind(path) not in TABLES:
            return _lines(path, how.skip, how.labelled)
        return super().of_file(path, how)

    def of_table(self, table: Table, how: Reading) -> TaskData:
        labelled, header, several = how.labelled, table.header, isinstance(how.label, list)
        given = None if several else how.label
        one = dataclasses.replace(how, label=given, labelled=labelled and given is not None)
        chosen, column = find_columns(table, one, TEXTS, () if several else SET_COLUMNS)
        one_or_two(chosen)
        found, rows, bits = {}, list(table.rows), []
        if several:
            bits = [int(c) if header is None else str(c) for c in how.label]
        elif column is None:
            bits = _bit_columns(rows, header or [], chosen)
        if not labelled and header is not None and not set(bits) <= set(header):
            bits = []
        if bits:
            labels, found = _of_bits(bits, labelled), {"label_columns": [str(c) for c in bits]}
        elif column is not None:
            separator = how.separator or _separator(rows, column)
            labels, found = _of_column(column, separator, labelled), {"separator": separator}
        elif labelled:
            wanted = ", ".join(SET_COLUMNS)
            raise ValueError(
                f"{table.source}: no column of labels ({wanted}) and none of 0 and 1 alone; its "
                f"columns are {', '.join(map(repr, header or []))}; choose with label or "
                "label_columns"
            )
        else:
            labels = _of_bits([], labelled)  # which are not known

        def make(row: dict | list) -> TaskExample:
            return TaskExample(texts_of_row(row, chosen, not how.labelled), labels(row))

        note = table.read_as(chosen, bits or [x for x in [column] if x is not None])
        data = gather(table.source, rows, make, how.skip, note)
        return dataclasses.replace(data, labels_as=found)


def _of_bits(columns: list[Column], labelled: bool) -> _Labels:
    """Return a function of a row to the names of the columns that are 1."""

    def labels(row: dict | list) -> tuple[str, ...] | None:
        values = [_bit(given_cell(row, column, labelled)) for column in columns]
        if all(value in _UNKNOWN for value in values):  # the test file of Jigsaw's comments
            if labelled:
                raise LeftOut("its labels are -1, which says that they are not known")
            return None
        for column, value in zip(columns, values, strict=True):
            if value not in _BITS:
                if not labelled:
                    return None
                raise BadRow(f"column {column!r} must be 0 or 1; got {value!r:.60}")
        named = zip(columns, values, strict=True)
        return tuple(sorted(str(column) for column, value in named if _BITS[value]))

    return labels


def _bit(value: object) -> Any:
    if isinstance(value, str):
        return value.strip()
    return value if isinstance(value, int | float) else str(value)  # what can be looked up


def _bit_columns(rows: list[Row], header: list[Column], texts: list[Column]) -> list[Column]:
    """Return the columns beside the texts that hold 0 and 1 alone."""
    good = [row for _, row in rows if not isinstance(row, BadRow)]

    def holds_bits(column: Column) -> bool:
        values = (row[column] for row in good if column in row)
        values = [value.strip() if isinstance(value, str) else value for value in values]
        known = [value for value in values if value not in _UNKNOWN]
        return bool(known) and all(
            isinstance(value, str | int | float) and value in _BITS for value in known
        )

    return [column for column in header if column not in texts and holds_bits(column)]


def _of_column(column: Column, separator: str | None, labelled: bool) -> _Labels:
    """Return a function of a row to the labels in a column: a list, or a string of several."""

    def labels(row: dict | list) -> tuple[str, ...] | None:
        found = given_cell(row, column, labelled)
        if found is None or found == "":
            return () if labelled else None
        if isinstance(found, str):
            found = found.split(separator) if separator else [found]
            found = [part for part in map(str.strip, found) if part]
        elif isinstance(found, bool | dict):
            raise BadRow(f"its labels must be a list of names; got {found!r:.60}")
        elif not isinstance(found, list):
            found = [found]
        if any(isinstance(label, bool) for label in found):
            raise BadRow(f"its labels must be names; got {found!r:.60}")
        named = {class_name(x): checked_label(x, "a label") for x in found}
        return tuple(named[name] for name in sorted(named))

    return labels


def _separator(rows: list[Row], column: Column) -> str | None:
    good = (row for _, row in rows if not isinstance(row, BadRow))
    cells = [given_cell(row, column, needed=False) for row in good]
    texts = [value for value in cells if isinstance(value, str)]
    return next((mark for mark in SEPARATORS if any(mark in text for text in texts)), None)


def _lines(path: str, skip: bool, labelled: bool) -> TaskData:
    def make(line: str) -> TaskExample:
        labels, text = marked_labels(line)
        return TaskExample((text,), tuple(sorted(set(labels))) if labels or labelled else None)

    how = "lines of fastText, labels are __label__NAME"
    return gather(path, filled_lines(path), make, skip, how)
