"""The two Apache Beam pipelines that make examples.

    read (a file)        text in chunks of documents
    tokenize (a chunk)   pieces of the corpus                   -- then the table of documents --
    give (a piece)       rows for shards, requests to other pieces
    answer (a piece)     rows for shards, as other pieces requested
    write (a shard)      its rows in order

Text and tokens are exchanged as files, so that no worker has the whole corpus in memory and the
finished work of a killed run is kept. Workers exchange only names and the rows of shards.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np

from tfnlp.data.corpus.corpora import TokenizedCorpus
from tfnlp.data.shards.folder import HELD_OUT, Folder, shard_name
from tfnlp.data.shards.pieces import (
    Table,
    chunks,
    piece_name,
    read_name,
    read_text,
    text_name,
    write_piece,
    write_text,
)
from tfnlp.data.shards.recipes import Recipe, example

HELD = -1  # the number of the held-out file among those of shards
_BY_CHUNK = tuple[tuple[int, int], type(None)]
_ASKED = -2  # and of requests to piece 0; those to piece n have the number -2 - n


class Work(beam.DoFn):
    """A step of a pipeline, which writes an error of the input to a file.

    Runners report errors in different ways, and the error may be raised on another machine.
    """

    def __init__(self, folder: Folder, recipe: Recipe | None = None) -> None:
        self.folder, self.recipe = folder, recipe

    def process(self, element: Any) -> Iterator[Any]:
        try:
            yield from self.work(element)
        except (ValueError, OSError) as error:
            self.folder.keep_error(error)
            raise


class Read(Work):
    """The number of an input file -> (file, chunk); the text of the chunk is written."""

    def __init__(self, folder: Folder, readers: Sequence[Callable], characters: int) -> None:
        super().__init__(folder)
        self.readers, self.characters = readers, characters

    def work(self, reader: int) -> Iterator[tuple[int, int]]:
        count = 0
        for count, documents in enumerate(chunks(self.readers[reader](), self.characters), 1):
            place = reader, count - 1
            if self.folder.note(piece_name(*place)) is None:
                write_text(self.folder, text_name(*place), documents)
                yield place
        self.folder.write_noted(read_name(reader), b"", chunks=count)


class Tokenize(Work):
    """(file, chunk) -> (); the piece is written."""

    def setup(self) -> None:
        self.tokenizer = self.recipe.tokenizer()  # once per worker

    def work(self, place: tuple[int, int]) -> tuple[()]:
        name = piece_name(*place)
        if self.folder.note(name) is None:
            try:
                documents = read_text(self.folder, text_name(*place))
            except OSError:
                if self.folder.note(name) is None:
                    raise
                return ()  # another worker, which an engine gave the same work, has done it
            write_piece(self.folder, name, documents, self.tokenizer)
        self.folder.remove(text_name(*place))
        return ()


class Making(Work):
    """A step that makes examples."""

    @functools.cached_property
    def table(self) -> Table:
        """The table, read once per worker."""
        return Table.read(self.folder)


class Give(Making):
    """The number of a piece -> (shard, rows), and (_ASKED - piece, rows) for requests.

    There is one output because not every runner keeps several apart (Beam's Dask runner does not).
    """

    def __init__(self, folder: Folder, recipe: Recipe, wanted: Sequence[int]) -> None:
        super().__init__(folder, recipe)
        self.wanted = wanted

    def work(self, piece: int) -> Iterator[Any]:
        wanted = np.array(self.wanted)
        corpus = self.table.corpus(self.folder, piece)
        if corpus is not None and (wanted >= 0).any():
            parts, asks = self.recipe.give(corpus, piece, self.table, wanted[wanted >= 0])
            yield from parts
            for other, rows in asks:
                yield _ASKED - other, rows
        if HELD in self.wanted:
            corpus = self.table.corpus(self.folder, piece, held_out=True)
            if corpus is not None:
                yield HELD, (piece, corpus)


class Answer(Making):
    """(_ASKED - piece, requests) -> (shard, rows)."""

    def work(self, element: tuple[int, Iterable[dict]]) -> Iterator[Any]:
        number, asks = element
        piece = _ASKED - number
        corpus = self.table.corpus(self.folder, piece)
        yield from self.recipe.answer(corpus, piece, self.table, asks)


class Write(Work):
    """(shard, rows) -> (); the shard, or the held-out file, is written."""

    def work(self, element: tuple[int, Iterable[Any]]) -> tuple[()]:
        shard, batches = element
        batches = [batch for batch in batches if batch is not None]
        if shard == HELD:
            corpora = [corpus for _, corpus in sorted(batches, key=lambda batch: batch[0])]
            self.folder.write_records(HELD_OUT, held_out_records(corpora))
        else:
            records, facts = self.recipe.assemble(batches)
            name = shard_name(*divmod(shard, self.recipe.shards))
            self.folder.write_records(name, records, **facts)
        return ()


def held_out_records(corpora: Iterable[TokenizedCorpus]) -> Iterator[bytes]:
    """Yield a record for each document: its tokens, and the length of each sentence."""
    for corpus in corpora:
        starts = corpus.sentence_starts
        for first, end in zip(corpus.document_starts[:-1], corpus.document_starts[1:], strict=True):
            yield example(
                tokens=corpus.tokens[starts[first] : starts[end]].tolist(),
                lengths=np.diff(starts[first : end + 1]).tolist(),
            )


def tokenize_pipeline(
    pipeline: beam.Pipeline,
    folder: Folder,
    readers: Sequence[Callable],
    todo: Sequence[int],
    left: Sequence[tuple[int, int]],
    recipe: Recipe,
    characters: int,
) -> beam.PCollection:
    """Read the files `todo` (numbers of `readers`), and tokenize their chunks and those of `left`.

    Elements of `left` are (file, chunk).
    """
    read = (
        pipeline
        | "files" >> beam.Create(todo)
        | "spread files" >> beam.Reshuffle()
        | "read" >> beam.ParDo(Read(folder, readers, characters)).with_output_types(tuple[int, int])
    )
    kept = pipeline | "left" >> beam.Create(left)
    return (
        (read, kept)
        | beam.Flatten()
        # Not `Reshuffle`: on Dask it leaves all chunks of a file to the worker that has read it.
        | "by chunk" >> beam.Map(lambda place: (place, None)).with_output_types(_BY_CHUNK)
        | "spread chunks" >> beam.GroupByKey()
        | "chunk" >> beam.Keys()
        | "tokenize" >> beam.ParDo(Tokenize(folder, recipe))
    )


def shards_pipeline(
    pipeline: beam.Pipeline, folder: Folder, recipe: Recipe, wanted: Sequence[int], pieces: int
) -> beam.PCollection:
    """Make the shards with the numbers `wanted` from all pieces."""
    given = (
        pipeline
        | "pieces" >> beam.Create(range(pieces))
        | "spread pieces" >> beam.Reshuffle()
        | "give" >> beam.ParDo(Give(folder, recipe, wanted)).with_output_types(tuple[int, Any])
    )
    rows = given | "rows" >> beam.Filter(lambda row: row[0] > _ASKED)
    # Shards without rows are written, too.
    empty = pipeline | "shards" >> beam.Create([(shard, None) for shard in wanted])
    every = [_numbered(rows, "rows to shards"), _numbered(empty, "empty")]
    if recipe.requests:
        asks = given | "asks" >> beam.Filter(lambda row: row[0] <= _ASKED)
        answers = (
            _numbered(asks, "requests")
            | "to their pieces" >> beam.GroupByKey()
            | "answer" >> beam.ParDo(Answer(folder, recipe))
        )
        every.append(_numbered(answers, "answers"))
    return (
        every
        | beam.Flatten()
        | "to their shards" >> beam.GroupByKey()
        | "write" >> beam.ParDo(Write(folder, recipe))
    )


def _numbered(rows: beam.PCollection, name: str) -> beam.PCollection:
    """Return rows with keys declared as ints, which every worker encodes alike."""
    return rows | name >> beam.Map(lambda row: row).with_output_types(tuple[int, Any])
