"""Tables in files and TFDS data sets, and the columns that a task reads.

Files are `.tsv`, `.csv`, `.jsonl` and `.parquet`.
"""

import contextlib
import csv
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfnlp.data.corpus.documents import open_tfds
from tfnlp.data.labelled.rows import (
    BadRow,
    file_kind,
    file_lines,
    filled_lines,
    json_rows,
    no_examples,
)
from tfnlp.data.rows import plain, with_names
from tfnlp.extras import needed
from tfnlp.files import no_file
from tfnlp.text.words import MARKS

# The default columns: the first of these that a table has.
TEXT_COLUMNS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("text_a", "text_b"),
    ("sentence",),
    ("text",),
)
LABEL_COLUMNS = ("label", "gold_label", "score", "similarity")

JSON_KINDS = (".jsonl", ".json")
PARQUET = ".parquet"
TABLES = (*JSON_KINDS, PARQUET, ".csv", ".tsv")

# Of tables with tabs: a field, a row of fields, and a quotation mark in one.
_FIELD = re.compile(r'"(?:[^"]|"")*+"|[^"\t]+')
_QUOTED_ROW = re.compile(rf"(?:{_FIELD.pattern})?+(?:\t(?:{_FIELD.pattern})?+)*+")
_DOUBLED = re.compile(r'(?<=[^\t])""|""(?=[^\t])')

Column = str | int
Row = tuple[str, dict | list | BadRow]  # its place, and its fields by name or by number


@dataclass(frozen=True)
class Reading:
    """How the rows of a task are read: arguments of `RowForm.read`, `text` as a list."""

    text: list[Column] | None = None
    label: Column | list[Column] | None = None
    skip: bool = False
    labelled: bool = True
    drop: Sequence[str] = ("-",)
    separator: str | None = None
    splitter: str = MARKS
    of_run: bool = False

    @property
    def columns(self) -> list[Column]:
        """The columns that were chosen."""
        labels = self.label if isinstance(self.label, list) else [self.label]
        return [*(self.text or ()), *(label for label in labels if label is not None)]


class Table(NamedTuple):
    """Rows with columns.

    Rows are dicts or, without a header, lists.
    """

    source: str  # its file, data set or argument, for messages
    header: list[Column] | None
    rows: Iterable[Row]
    quotes: str = ""  # what quotation marks are, in words, if there are any

    def read_as(self, texts: Sequence[Column], labels: Sequence[Column]) -> str:
        """Return which columns are texts and labels, in words; "" if that is plain."""
        if not self.quotes and self.header and {*self.header} == {*texts, *labels}:
            return ""
        named = ", ".join(map(repr, texts)), ", ".join(map(repr, labels)) or "none"
        of = "no header" if self.header is None else f"columns {_listed(self.header)}"
        quotes = self.quotes and f"; quotation marks {self.quotes}"
        return f"text {named[0]}; label {named[1]}; {of}{quotes}"


def column_list(text: Column | Sequence[Column] | None) -> list[Column] | None:
    """Return the text columns as a list."""
    if text is None:
        return None
    columns = list(text) if isinstance(text, (list, tuple)) else [text]
    for column in columns:
        kind = type(column)
        if kind not in (str, int) or column == "" or kind is int and column < 0:
            raise ValueError(f"a column must be a name or a number from 0; got {column!r}")
    if not columns:
        raise ValueError("text must name one column or more; got none")
    return columns


def read_table(path: str, columns: Sequence[Column] = ()) -> Table:
    """Return the table of a UTF-8 file; `.gz` is unpacked on the way.

    In `.jsonl` (or `.json`) every line is a JSON object. `.parquet` has columns. In `.csv`,
    quotation marks enclose fields. In all others tabs separate fields, and quotation marks are
    plain characters, as in GLUE, or enclose fields, as pandas writes them: see `is_quoted`. Blank
    lines are skipped. If numbers of `columns` were chosen, a `.tsv` or `.csv` has no header.
    """
    kind = file_kind(path)
    if kind == PARQUET:
        with open_parquet(path) as file:
            rows = [row for batch in file.iter_batches() for row in batch.to_pylist()]
            places = (f"row {number}" for number in range(1, len(rows) + 1))
            return Table(path, list(file.schema_arrow.names), zip(places, rows, strict=True))
    if kind in JSON_KINDS:
        rows, before = json_rows(path), []
        for found in rows:
            before.append(found)
            if isinstance(found[1], dict):
                return Table(path, list(found[1]), itertools.chain(before, rows))
        raise no_examples(path, [f"{path}, {where}: {bad}" for where, bad in before])
    quotes = "enclose fields"
    if kind == ".csv":
        rows = _quoted_rows(path, ",")
    elif is_quoted(path):
        rows = _quoted_rows(path, "\t")
    else:
        rows, quotes = _plain_rows(path), "are characters of the texts"
    numbers = [isinstance(c, int) or c.isascii() and c.isdecimal() for c in columns]
    if any(numbers):
        if not all(numbers):
            raise ValueError(
                f"{path}: text and label must be all names of a header's columns, or all "
                f"numbers from 0 of a file without header; got {_listed(columns)}"
            )
        return Table(path, None, rows, quotes)
    where, header = next(rows, (None, None))
    if header is None:
        raise no_examples(path)
    if isinstance(header, BadRow):
        raise ValueError(f"{path}, {where}: {header}")
    header = [name.strip() for name in header]
    return Table(path, header, _by_name(header, rows), quotes)


@contextlib.contextmanager
def open_parquet(path: str | os.PathLike) -> Iterator[Any]:
    """Open a `pyarrow.parquet.ParquetFile`."""
    parquet = needed("pyarrow.parquet", "pyarrow", None, os.fspath(path))
    pyarrow = needed("pyarrow", "pyarrow", None, os.fspath(path))
    path = os.path.expanduser(os.fspath(path))
    if not os.path.exists(path):
        raise no_file(path)
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} is not a Parquet file, or damaged: {error}") from error


def tfds_table(source: str, class_names: bool = True) -> Table:
    """Return a prepared TFDS data set as a table of its features; classes see `with_names`."""
    builder, split = open_tfds(source)
    features = builder.info.features

    def rows() -> Iterator[Row]:
        dataset = builder.as_dataset(split=split, shuffle_files=False)
        for number, example in enumerate(dataset.as_numpy_iterator()):
            try:
                row = plain(example)
                row = {key: with_names(features[key], row[key], class_names) for key in features}
            except UnicodeDecodeError:
                row = BadRow("is not UTF-8 text")
            yield f"example {number}", row

    return Table(source, list(features), rows())


def find_columns(
    table: Table,
    how: Reading,
    defaults: Sequence[Sequence[str]] = TEXT_COLUMNS,
    labels: Sequence[str] = LABEL_COLUMNS,
) -> tuple[list[Column], Column | None]:
    """Return the columns of the texts and of the label: keys of the rows of a table.

    They are `text` and `label` of `how`, if these are None the first of `defaults` and of `labels`,
    whose letters may be capitals in the table. If not `labelled`, the label's may be missing: None.
    """
    source, header = table.source, table.header
    text, label, labelled = how.text, how.label, how.labelled
    if header is None:
        if text is None or (label is None and labelled):
            raise ValueError(
                f"{source} is read without header, because columns were given by number: give the "
                f"other ones too ({'text' if text is None else 'label'}, a number)"
            )
        return [int(column) for column in text], None if label is None else int(label)
    found = f"its columns are {_listed(header)}"
    hint = "choose with text and label (--text, --label), by numbers from 0 if there is no header"
    if len(header) == 1 and any(mark in str(header[0]) for mark in ";\t|"):
        hint = "fields of .csv are separated by commas, of .tsv by tabs: save it so"
    known = {str(name).lower(): name for name in reversed(header)}
    known.update((name, name) for name in header)  # the same letters come first
    if text is None:
        complete = (names for names in defaults if known.keys() >= {*names})
        text = next(([known[name] for name in names] for names in complete), None)
        if text is None:
            wanted = "; ".join(" + ".join(names) for names in defaults)
            raise ValueError(f"{source}: no text columns ({wanted}); {found}; {hint}")
    if label is None:
        label = next((known[name] for name in labels if name in known), None)
        if label is None and labelled:
            wanted = ", ".join(labels)
            raise ValueError(f"{source}: no label column ({wanted}); {found}; {hint}")
    elif label not in header and not labelled:
        label = None
    text, label = [str(name) for name in text], None if label is None else str(label)
    for name in [*text, *([] if label is None else [label])]:
        if header.count(name) != 1:
            count = "no column"
            if name in header:
                count, hint = "two columns", "rename one of them"
            raise ValueError(f"{source}: {count} {name!r}; {found}; {hint}")
    return text, label


def cell(row: dict | list, column: Column) -> object:
    """Return the field of a row."""
    try:
        return row[column]
    except IndexError:
        raise BadRow(
            f"expected {column + 1} or more fields; got {len(row)}: {_listed(row)}"
        ) from None
    except KeyError:
        raise BadRow(f"has no {column!r}; got only {_listed(row)}") from None


def given_cell(row: dict | list, column: Column, needed: bool) -> object:
    """Return the field of a row; None of a row without it, unless it is needed."""
    try:
        return cell(row, column)
    except BadRow:
        if needed:
            raise
        return None


def tab_rows(path: str) -> Iterator[Row]:
    """Return the rows of a file whose fields tabs separate, as lists."""
    return _quoted_rows(path, "\t") if is_quoted(path) else _plain_rows(path)


def _plain_rows(path: str) -> Iterator[Row]:
    return ((where, line.split("\t")) for where, line in filled_lines(path))


def is_quoted(path: str) -> bool:
    """Return whether quotation marks enclose fields of a file whose fields tabs separate.

    They do if none stands anywhere else, and there is a reason for them: they enclose all fields of
    the first row; or a field has a mark in it, which is doubled; or it has a tab or a line break,
    so that rows have as many fields with them and not without. A text in quotation marks alone is
    no reason.
    """
    needed, widths, tabs = False, set(), set()
    record, is_open = [], False  # the lines of a row
    for line in filter(str.strip, file_lines(path)):
        if not tabs:
            needed = all(len(x) > 1 and x[0] == x[-1] == '"' for x in line.split("\t"))
        tabs.add(line.count("\t"))
        is_open ^= line.count('"') % 2 == 1
        record.append(line)
        if is_open:
            continue
        row, record = "\n".join(record), []
        if '"' in row:
            if not _QUOTED_ROW.fullmatch(row):
                return False
            needed = needed or _DOUBLED.search(row) is not None
            row = _FIELD.sub("", row)
        widths.add(row.count("\t"))
    return not record and (needed or len(widths) < len(tabs) and len(widths) == 1)


def _quoted_rows(path: str, separator: str) -> Iterator[Row]:
    # Strict, so that a quotation mark that is not closed is an error and not a field.
    lines = (f"{line}\n" for line in file_lines(path))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        where = f"line {reader.line_num + 1}"
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield where, BadRow(f"not valid CSV ({error}); is a quotation mark left open?")
            continue
        if any(field.strip() for field in row):
            yield where, row


def _by_name(header: list[str], rows: Iterable[Row]) -> Iterator[Row]:
    for where, row in rows:
        if isinstance(row, BadRow):
            yield where, row
        elif any(field.strip() for field in row[len(header) :]):
            # A stray tab or comma in a text: the fields after it are in wrong columns.
            yield where, BadRow(f"has {len(row)} fields where the header has {len(header)}")
        else:
            yield where, dict(zip(header, row, strict=False))


def _listed(values: Iterable[object]) -> str:
    """Return names for a message, at most 12 and each cut to 30 characters."""
    values = [repr(value if isinstance(value, int) else str(value)[:30]) for value in values]
    return ", ".join(values[:12]) + (", ..." if len(values) > 12 else "")
