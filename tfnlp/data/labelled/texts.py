"""The texts of a file, one after the other, of any size."""

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any

from tfnlp import books
from tfnlp.data.corpus.documents import expand
from tfnlp.data.labelled.rows import BadRow, file_kind, file_lines, json_rows
from tfnlp.data.labelled.tables import (
    JSON_KINDS,
    PARQUET,
    Reading,
    Table,
    cell,
    find_columns,
    open_parquet,
    read_table,
    tfds_table,
)

TEXT_COLUMNS = ("text", "sentence", "document")  # the first that a table has
_TABLES = (".tsv", ".csv")


def text_files(sources: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files and `tfds:` names of paths, globs and `tfds:` and `book:` names."""
    found = []
    for source in map(os.fspath, sources):
        if source.startswith("tfds:"):
            found.append(source)
        elif source.startswith("book:"):
            found.append(str(books.path(source.removeprefix("book:"))))
        else:
            found += expand(source)
    return found


def read_texts(path: str | os.PathLike[str], column: str | None = None) -> Iterator[str]:
    """Yield the texts of a file; blank lines of a text file are empty texts.

    The file is `.tsv`, `.csv` or `.jsonl` (also with `.gz`), `.parquet`, a `tfds:` name, or else
    has a text a line. `column` holds the texts, a name or the number of a `.tsv` or `.csv` without
    header; None: `text`, `sentence` or `document`.
    """
    path = os.path.expanduser(os.fspath(path))
    if path.startswith("tfds:"):
        _, header, rows, _ = tfds_table(path)
        names = _columns(path, header, column)
        yield from (_text(path, where, row, names) for where, row in rows)
        return
    kind = file_kind(path)
    if kind == PARQUET:
        yield from _of_parquet(path, column)
        return
    if kind not in (*_TABLES, *JSON_KINDS):
        if column is not None:
            raise ValueError(f"{path} is a text file without columns; leave `text` out")
        yield from file_lines(path)
        return
    if kind in JSON_KINDS:
        rows = json_rows(path)  # not `read_table`, which keeps all of them
        first = next(rows, None)
        header = list(first[1]) if first and isinstance(first[1], dict) else []
        rows = itertools.chain([first] if first else [], rows)
    else:
        _, header, rows, _ = read_table(path, [] if column is None else [column])
    names = None
    if header is None:
        names = [int(column)]
    elif header or kind in _TABLES:
        names = _columns(path, header, column)
    for where, row in rows:
        yield _text(path, where, row, names)


def _columns(path: str, header: list[str], column: str | None) -> list[Any]:
    """Return the column of the texts."""
    how = Reading(None if column is None else [column], labelled=False)
    return find_columns(Table(path, header, ()), how, [(name,) for name in TEXT_COLUMNS])[0]


def _text(path: str, where: str, row: Any, names: list[Any] | None) -> str:
    try:
        if isinstance(row, BadRow):
            raise row
        value = cell(row, names[0])
        if not isinstance(value, str):
            raise BadRow(f"{names[0]} must be a text; got {value!r:.60}")
        value.encode("utf-8")  # JSON can hold half of a surrogate pair
    except (BadRow, UnicodeEncodeError) as error:
        raise ValueError(f"{path}, {where}: {error}") from error
    return value


def _of_parquet(path: str, column: str | None) -> Iterator[str]:
    with open_parquet(path) as file:
        names = _columns(path, file.schema_arrow.names, column)
        number = 0
        for batch in file.iter_batches(columns=names):
            for text in batch.column(0).to_pylist():
                number += 1
                yield _text(path, f"row {number}", {names[0]: text}, names)
