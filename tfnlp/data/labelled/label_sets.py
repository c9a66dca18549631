"""Examples with any number of labels, or of numbers: in one column, or in a column each."""

import abc
import dataclasses
from typing import Any, ClassVar

from tfnlp.data.labelled.examples import (
    TaskExample,
    TextRows,
    checked_label,
    checked_score,
    class_name,
    marked_labels,
    one_or_two,
    texts_of_row,
)
from tfnlp.data.labelled.forms import Record
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
_BITS = {0: False, 1: True, "0": False, "1": True, "0.0": False, "1.0": True}
_UNKNOWN = (-1, "-1", "-1.0")


class _SeveralRows(TextRows):
    """A text or two, and names or numbers of them: in one column, or in several."""

    has_several_columns: ClassVar[bool] = True
    columns: ClassVar[tuple[str, ...]]  # names of the one column
    holds: ClassVar[str]  # what several columns hold, in words

    @abc.abstractmethod
    def in_columns(self, row: Record, columns: list[Column], labelled: bool) -> tuple | None:
        """Return what several columns of a row hold; None: not known."""

    @abc.abstractmethod
    def in_column(
        self, row: Record, column: Column, separator: str | None, labelled: bool
    ) -> tuple | None:
        """Return what the one column of a row holds; None: not known."""

    def found_columns(self, rows: list[Row], columns: list[Column]) -> list[Column]:
        """Return those of the columns beside the texts that are taken where none is given."""
        return []

    def separator(self, rows: list[Row], column: Column) -> str | None:
        """Return what stands between the names in a column of strings."""
        return None

    def of_table(self, table: Table, how: Reading) -> TaskData:
        labelled, header, several = how.labelled, table.header, isinstance(how.label, list)
        given = None if several else how.label
        one = dataclasses.replace(how, label=given, labelled=labelled and given is not None)
        chosen, column = find_columns(table, one, TEXTS, () if several else self.columns)
        one_or_two(chosen)
        found, rows, parts, separator = {}, list(table.rows), [], None
        if several:
            parts = [int(c) if header is None else str(c) for c in how.label]
        elif column is None:
            parts = self.found_columns(rows, [c for c in header or [] if c not in chosen])
        if not labelled and header is not None and not set(parts) <= set(header):
            parts = []
        if parts:
            found = {"label_columns": [str(c) for c in parts]}
        elif column is not None:
            separator = how.separator or self.separator(rows, column)
            found = {} if separator is None else {"separator": separator}
        elif labelled:
            raise ValueError(
                f"{table.source}: no column of {self.fields[-1]} ({', '.join(self.columns)}) and "
                f"none of {self.holds}; its columns are {', '.join(map(repr, header or []))}; "
                "choose with label or label_columns"
            )

        def make(row: Record) -> TaskExample:
            label = None
            if parts:
                label = self.in_columns(row, parts, labelled)
            elif column is not None:
                label = self.in_column(row, column, separator, labelled)
            return TaskExample(texts_of_row(row, chosen, not labelled), label)

        note = table.read_as(chosen, parts or [x for x in [column] if x is not None])
        data = gather(table.source, rows, make, how.skip, note)
        return dataclasses.replace(data, labels_as=found)


class LabelSetRows(_SeveralRows):
    """A text or two, and any number of labels.

    `.tsv`, `.csv` and `.jsonl` are tables. All other files have lines `__label__A __label__B text`,
    as for fastText, with labels anywhere; with `text` or `label` they are tables, too.

    `label` is one column, with a list or with names between separators, or several of 0 and 1.
    None: the first of labels, label, gold_label, score and similarity, else all columns that hold
    0 and 1 alone.
    """

    expected: ClassVar[str] = "(text, [label, ...]) or (text_a, text_b, [label, ...])"
    fields: ClassVar[tuple[str, ...]] = ("text_a", "text_b", "labels")
    columns: ClassVar[tuple[str, ...]] = ("labels", *LABEL_COLUMNS)
    holds: ClassVar[str] = "0 and 1 alone"

    def of_file(self, path: str, how: Reading) -> TaskData:
        if not how.columns and file_kind(path) not in TABLES:
            return _lines(path, how.skip, how.labelled)
        return super().of_file(path, how)

    def in_columns(self, row: Record, columns: list[Column], labelled: bool) -> tuple | None:
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

    def in_column(
        self, row: Record, column: Column, separator: str | None, labelled: bool
    ) -> tuple | None:
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

    def found_columns(self, rows: list[Row], columns: list[Column]) -> list[Column]:
        """Return the columns that hold 0 and 1 alone."""
        good = [row for _, row in rows if not isinstance(row, BadRow)]

        def holds_bits(column: Column) -> bool:
            values = (row[column] for row in good if column in row)
            values = [value.strip() if isinstance(value, str) else value for value in values]
            known = [value for value in values if value not in _UNKNOWN]
            return bool(known) and all(
                isinstance(value, str | int | float) and value in _BITS for value in known
            )

        return [column for column in columns if holds_bits(column)]

    def separator(self, rows: list[Row], column: Column) -> str | None:
        good = (row for _, row in rows if not isinstance(row, BadRow))
        cells = [given_cell(row, column, needed=False) for row in good]
        texts = [value for value in cells if isinstance(value, str)]
        return next((mark for mark in SEPARATORS if any(mark in text for text in texts)), None)


class ScoreSetRows(_SeveralRows):
    """A text or two, and several numbers.

    `label` is one column with numbers by name, or several columns of numbers; a list has the names
    LABEL_0, LABEL_1, ... None: scores or labels.
    """

    expected: ClassVar[str] = "(text, {name: number, ...}) or (text_a, text_b, {name: number, ...})"
    fields: ClassVar[tuple[str, ...]] = ("text_a", "text_b", "scores")
    columns: ClassVar[tuple[str, ...]] = ("scores", "labels")
    holds: ClassVar[str] = "numbers was given"
    has_class_names: ClassVar[bool] = False

    def in_columns(self, row: Record, columns: list[Column], labelled: bool) -> tuple | None:
        values = [given_cell(row, column, labelled) for column in columns]
        return _scores(dict(zip(map(str, columns), values, strict=True)), labelled)

    def in_column(
        self, row: Record, column: Column, separator: str | None, labelled: bool
    ) -> tuple | None:
        found = given_cell(row, column, labelled)
        if isinstance(found, list):
            found = {f"LABEL_{number}": value for number, value in enumerate(found)}
        if isinstance(found, dict):
            return _scores(found, labelled)
        if labelled or found not in (None, ""):
            raise BadRow(f"its scores must be numbers by name; got {found!r:.60}")
        return None


def _scores(values: dict[str, Any], labelled: bool) -> tuple[tuple[str, float], ...] | None:
    """Return numbers with their names; None if one is missing and need not be there."""
    if not labelled and any(value in (None, "") for value in values.values()):
        return None
    return tuple((str(name), checked_score(x, f"the score {name!r}")) for name, x in values.items())


def _bit(value: object) -> Any:
    if isinstance(value, str):
        return value.strip()
    return value if isinstance(value, int | float) else str(value)  # what can be looked up


def _lines(path: str, skip: bool, labelled: bool) -> TaskData:
    def make(line: str) -> TaskExample:
        labels, text = marked_labels(line)
        return TaskExample((text,), tuple(sorted(set(labels))) if labels or labelled else None)

    how = "lines of fastText, labels are __label__NAME"
    return gather(path, filled_lines(path), make, skip, how)
