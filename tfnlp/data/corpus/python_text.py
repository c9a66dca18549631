"""Texts of files or in memory as a stream of documents, each a list of sentences."""

from collections.abc import Callable, Iterable, Iterator

from tfnlp.data.corpus.documents import (
    check_layout,
    document_finder,
    one_document,
    read_documents,
)
from tfnlp.data.labelled.rows import BadRow
from tfnlp.data.rows import held, paths_of, rows_of, text_column


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
              between them. It holds texts if one of the strings is
              clearly a text: it has a space or a line break, does not end like the name of a file
              (`.txt`), and no file of that name exists. So a list of words, or of texts that all
              end like names of files, is a list of paths: pass such texts as `{"text": [...]}`;
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
    find_documents = document_finder("prose" if layout == "auto" else layout, paragraphs)
    return _documents(rows_of(text, name), find_documents, column, name)


def _documents(
    rows: Iterable[tuple[str, object]],
    find_documents: Callable[[list[str]], Iterable[list[str]]],
    column: str | None,
    name: str,
) -> Iterator[list[str]]:
    empty, chosen = True, None
    for where, row in rows:
        if isinstance(row, dict):
            chosen = chosen or text_column(row, name, column)
            row = row.get(chosen)
        if isinstance(row, str):
            documents = one_document(row.splitlines(), find_documents)
        elif isinstance(row, list) and all(isinstance(sentence, str) for sentence in row):
            documents = one_document(row, _as_they_are)
        else:
            expected = f"expected a text or a list of sentences; got {row!r:.60}"
            raise ValueError(f"{name}, {where}: {row if isinstance(row, BadRow) else expected}")
        for document in documents:
            empty = False
            yield document
    if empty:
        raise ValueError(f"no text in {name}; give documents that contain sentences")


def _as_they_are(sentences: Iterable[str]) -> Iterator[list[str]]:
    """Yield the sentences that are not blank, with one space for each run of whitespace."""
    yield [joined for sentence in sentences if (joined := " ".join(sentence.split()))]
