"""Texts in Python objects as a stream of documents, each a list of sentences."""

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tfnlp.data.containers import is_path, is_series, iterate, plain
from tfnlp.data.corpus.documents import check_layout, document_finder, read_documents

_FILE_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}$")


def documents_of(
    text: object,
    layout: str = "auto",
    paragraphs: bool = False,
    *,
    column: str = "text",
    name: str = "text",
) -> Iterator[list[str]]:
    """Yield the documents of files, data sets or Python objects, in their order.

    Args:
        text: one of

            - a path, a glob, `tfds:NAME` or `book:NAME`, or a list of them: see `read_documents`;
            - a list of texts: each is one document (see `holds_texts` for the difference between a
              list of texts and a list of paths);
            - a list of documents, each a list of sentences. They are taken as they are, but for
              runs of whitespace, which become one space, and blank sentences, which are left out;
            - a table that has texts or documents in `column`: a dict of columns
              (`{"text": [...]}`), a list of dicts, or a pandas frame; a pandas series;
            - a `tf.data.Dataset`, not batched, of strings or of dicts.
        layout: that of each text or file, see `read_documents`. Texts in memory are read as prose
            for "auto".
        paragraphs: of prose, return whole paragraphs instead of sentences.
        column: the column of the texts, in tables.
        name: the argument that `text` was given as, for messages.

    Returns:
        An iterator of non-empty documents.

    Raises:
        ValueError: an unknown layout, something else than the above, an empty list or a missing
            column; while reading, a row without text, or no text at all. Rows count from 0.
        FileNotFoundError, IsADirectoryError, OSError: as `read_documents`.
    """
    check_layout(layout)
    if is_path(text):
        if "\n" in os.fspath(text):
            raise ValueError(
                f"{name} is a string with line breaks, which can't be a path; give a text as a "
                f"list: {name}=[...]"
            )
        return read_documents(text, layout, paragraphs)
    first, rows = iterate(text, name)
    if is_path(first) and not is_series(text):
        rows = list(rows)
        if all(map(is_path, rows)) and not holds_texts(rows, name):
            return read_documents(rows, layout, paragraphs)
    if isinstance(first, Mapping) and column not in first:
        raise ValueError(
            f"{name} has no column {column!r}; its columns are {', '.join(map(repr, first))}"
        )
    find_documents = document_finder("prose" if layout == "auto" else layout, paragraphs)
    return _documents(rows, find_documents, column, name)


def holds_texts(values: Sequence[str | os.PathLike], name: str = "text") -> bool:
    """Return whether a list of strings holds texts; if not, it holds paths.

    It holds texts if one of the strings is clearly a text: it has a space or a line break, does not
    end like the name of a file (`.txt`), and no file of that name exists. So a list of words, or of
    texts that all end like names of files, is a list of paths: pass such texts as
    `{"text": [...]}`.

    Args:
        values: strings or path objects.
        name: the argument that holds them, for messages.
    """
    source = next((value for value in values if _is_source(value)), None)
    text = next((value for value in values if _is_text(value)), None)
    if source is not None and text is not None:
        raise ValueError(
            f"{name} holds files ({os.fspath(source)!r:.60}) and texts ({text!r:.60}); give one "
            f'kind, texts as {{"text": [...]}} if a list of them is not clear'
        )
    return text is not None


def _is_source(value: str | os.PathLike) -> bool:
    """Return whether `value` is certainly a path or the name of a data set."""
    if isinstance(value, os.PathLike) or value.startswith(("tfds:", "book:")):
        return True
    return "\n" not in value and len(value) < 4096 and os.path.exists(os.path.expanduser(value))


def _is_text(value: str | os.PathLike) -> bool:
    """Return whether `value` is certainly a text."""
    if _is_source(value):
        return False
    return "\n" in value or (" " in value.strip() and not _FILE_EXTENSION.search(value))


def _documents(
    rows: Iterable[object],
    find_documents: Callable[[list[str]], Iterable[list[str]]],
    column: str,
    name: str,
) -> Iterator[list[str]]:
    empty = True
    for number, row in enumerate(rows):
        if isinstance(row, Mapping):
            if column not in row:
                raise ValueError(f"{name}: row {number} has no {column!r}")
            row = row[column]
        try:
            row = plain(row)
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}: row {number} is not UTF-8 text") from error
        if isinstance(row, str):  # one document, even if it has blank lines
            document = list(itertools.chain.from_iterable(find_documents(row.splitlines())))
        elif isinstance(row, list) and all(isinstance(sentence, str) for sentence in row):
            document = [" ".join(sentence.split()) for sentence in row]
            document = [sentence for sentence in document if sentence]
        else:
            raise ValueError(
                f"{name}: row {number} must be a text or a list of sentences; got {row!r:.60}"
            )
        if document:
            empty = False
            yield document
    if empty:
        raise ValueError(f"no text in {name}; give documents that contain sentences")
