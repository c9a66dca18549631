"""Texts and documents, from files of any size and from whatever a user has in memory."""

import os
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from tfnlp.data.corpus.documents import named_files, read_documents
from tfnlp.data.corpus.sentences import check_layout, one_document
from tfnlp.data.labelled.rows import BadRow, checked_text, file_kind, file_lines
from tfnlp.data.labelled.tables import (
    PARQUET,
    TABLES,
    Reading,
    Table,
    cell,
    find_columns,
    open_parquet,
    read_table,
    tfds_table,
)
from tfnlp.data.rows import files_of, held, is_text, paths_of, plain_rows, rows_of

TEXT_COLUMNS = ("text", "sentence", "document")  # the first that a table has


def texts_of(value: object, argument: str, column: str | None = None) -> list[str]:
    """Return the texts that an argument holds; a string is one text, a path object is a file.

    Args:
        value: a string, or anything that `rows_of` takes whose rows are strings, or tables with a
            column of strings; or path objects, see `read_texts`.
        argument: its name, for messages.
        column: of a table the column of the texts; None: text, sentence or document.

    Raises:
        ValueError: for a table without such a column, or a row that is no text.
    """
    value = [value] if is_text(value) else held(value)
    files = files_of(value)
    if files:
        return [text for path in named_files(files) for text in read_texts(path, column)]
    texts, chosen = [], None
    for where, row in plain_rows(value, argument):
        if isinstance(row, dict):
            chosen = chosen or _text_column(row, argument, column)
            row = row.get(chosen)
        if not isinstance(row, str):
            what = row if isinstance(row, BadRow) else f"expected a text; got {row!r:.60}"
            raise ValueError(f"{argument}, {where}: {what}")
        texts.append(row)
    return texts


def _text_column(names: Collection[str], argument: str, column: str | None = None) -> str:
    """Return the name of the column that holds the texts of a table in memory."""
    known = {name.lower(): name for name in names}
    wanted = TEXT_COLUMNS if column is None else (column,)
    found = next((known.get(name, name) for name in wanted if name in {*names, *known}), None)
    if found is None:
        raise ValueError(
            f"{argument} has no column {' or '.join(map(repr, wanted))}; its columns are "
            f"{', '.join(map(repr, names))}; give the one with the texts itself, such as "
            f"TABLE[{next(iter(names), '')!r}]"
        )
    return found


def documents_of(
    text: object,
    layout: str = "auto",
    paragraphs: bool = False,
    *,
    column: str | None = None,
    name: str = "text",
) -> Iterator[list[str]]:
    """Yield the documents of files, data sets or Python objects, in their order.

    Args:
        text: one of

            - a path, a glob, `tfds:NAME` or `book:NAME`, or a list of them: see `read_documents`;
            - a list of texts: each is one document, or several with the mark `<|endoftext|>`
              between them. How texts are told from paths says `tfnlp.data.rows.paths_of`; pass
              texts that look like names of files as `{"text": [...]}`;
            - a list of documents, each a list of sentences. They are taken as they are, but for
              runs of whitespace, which become one space, and blank sentences, which are left out;
            - a table that has texts or documents in `column`: a dict of columns
              (`{"text": [...]}`), a list of dicts, a table of pandas, polars or Arrow, a Hugging
              Face data set; or a column of one;
            - a numpy array, a generator or a `tf.data.Dataset` of texts or of dicts.
        layout: that of each text or file, see `read_documents`. Texts in memory are read as prose
            for "auto".
        paragraphs: of prose, return whole paragraphs instead of sentences.
        column: the column of the texts, in tables; None: text, sentence or document.
        name: the argument that `text` was given as, for messages.

    Returns:
        An iterator of non-empty documents.

    Raises:
        ValueError: an unknown layout, something else than the above, an empty list or a missing
            column; while reading, a row without text, or no text at all. Rows count from 0.
        FileNotFoundError, IsADirectoryError, OSError: as `read_documents`.
    """
    check_layout(layout)
    text = held(text)
    paths = paths_of(text, name)
    if paths is not None:
        return read_documents(paths, layout, paragraphs)
    return _documents(rows_of(text, name), layout, paragraphs, column, name)


def _documents(
    rows: Iterable[tuple[str, object]], layout: str, paragraphs: bool, column: str | None, name: str
) -> Iterator[list[str]]:
    empty, chosen = True, None
    for where, row in rows:
        if isinstance(row, dict):
            chosen = chosen or _text_column(row, name, column)
            row = row.get(chosen)
        if isinstance(row, str):
            documents = one_document(row.splitlines(), layout, paragraphs)
        elif isinstance(row, list) and all(isinstance(sentence, str) for sentence in row):
            documents = one_document(row, "lines")
        else:
            expected = f"expected a text or a list of sentences; got {row!r:.60}"
            raise ValueError(f"{name}, {where}: {row if isinstance(row, BadRow) else expected}")
        for document in documents:
            empty = False
            yield document
    if empty:
        raise ValueError(f"no text in {name}; give documents that contain sentences")


def read_texts(path: str | os.PathLike[str], column: str | None = None) -> Iterator[str]:
    """Yield the texts of a file; blank lines of a text file are empty texts.

    The file is `.tsv`, `.csv` or `.jsonl` (also with `.gz`), `.parquet`, a `tfds:` name, or else
    has a text a line. `column` holds the texts, a name or the number of a `.tsv` or `.csv` without
    header; None: `text`, `sentence` or `document`.
    """
    path = os.path.expanduser(os.fspath(path))
    kind = "" if path.startswith("tfds:") else file_kind(path)
    if kind == PARQUET:
        yield from _of_parquet(path, column)
        return
    if path.startswith("tfds:"):
        table = tfds_table(path)
    elif kind in TABLES:
        table = read_table(path, [] if column is None else [column])
    elif column is not None:
        raise ValueError(f"{path} is a text file without columns; leave `text` out")
    else:
        yield from file_lines(path)
        return
    name = int(column) if table.header is None else _column(path, table.header, column)
    for where, row in table.rows:
        yield _text(path, where, row, name)


def _column(path: str, header: list[str], column: str | None) -> Any:
    """Return the column of the texts."""
    how = Reading(None if column is None else [column], labelled=False)
    return find_columns(Table(path, header, ()), how, [(name,) for name in TEXT_COLUMNS])[0][0]


def _text(path: str, where: str, row: Any, name: Any) -> str:
    try:
        if isinstance(row, BadRow):
            raise row
        return checked_text(cell(row, name), str(name), may_be_blank=True)
    except BadRow as error:
        raise ValueError(f"{path}, {where}: {error}") from error


def _of_parquet(path: str, column: str | None) -> Iterator[str]:
    """Yield the texts of a column, which alone is read."""
    with open_parquet(path) as file:
        name = _column(path, file.schema_arrow.names, column)
        batches = file.iter_batches(columns=[name])
        texts = (text for batch in batches for text in batch.column(0).to_pylist())
        for number, text in enumerate(texts, 1):
            yield _text(path, f"row {number}", {name: text}, name)
