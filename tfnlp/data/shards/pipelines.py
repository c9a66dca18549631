"""The two Apache Beam pipelines that make examples.

    read (a file)        text in chunks of documents
    tokenize (a chunk)   pieces of the corpus                   -- the table of documents is made --
    give (a piece)       rows for shards, asks of other pieces
    answer (a piece)     rows for shards, of all that was asked of the piece
    write (a shard)      rows in order

Text and tokens go through files, so that no worker ever holds the corpus, and what a killed run
finished stays; between workers go names, and the rows of the shards that are to be made.
"""

import json
from typing import Any

import apache_beam as beam
import numpy as np

from tfnlp.data.shards.folder import FAULT, HELD_OUT, Folder, shard_name
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
from tfnlp.data.shards.rows import example

HELD = -1  # in place of a shard's number


class Work(beam.DoFn):
    """A step of a pipeline. An error of the input is left in a file: what a runner makes of it
    differs, and it may come from another machine."""

    def __init__(self, folder: Folder):
        self.folder = folder

    def process(self, element):
        try:
            yield from self.work(element)
        except (ValueError, OSError) as error:
            kind = "ValueError" if isinstance(error, ValueError) else "OSError"
            fault = {"kind": kind, "message": str(error)}
            self.folder.write(FAULT, json.dumps(fault).encode())
            raise


class Read(Work):
    """An input file's number -> (file, chunk), the text of which is written."""

    def __init__(self, folder, readers, characters):
        super().__init__(folder)
        self.readers, self.characters = readers, characters

    def work(self, reader):
        count = 0
        for count, documents in enumerate(chunks(self.readers[reader](), self.characters), 1):
            place = reader, count - 1
            if self.folder.note(piece_name(*place)) is None:
                write_text(self.folder, text_name(*place), documents)
                yield place
        self.folder.write_noted(read_name(reader), b"", chunks=count)


class Tokenize(Work):
    """(file, chunk) -> nothing; the piece is written."""

    def __init__(self, folder, make_tokenizer):
        super().__init__(folder)
        self.make_tokenizer = make_tokenizer

    def setup(self):
        self.tokenizer = self.make_tokenizer()

    def work(self, place):
        name = piece_name(*place)
        if self.folder.note(name) is None:
            documents = read_text(self.folder, text_name(*place))
            write_piece(self.folder, name, documents, self.tokenizer)
        self.folder.remove(text_name(*place))
        return ()


class Give(Work):
    """A piece's number -> (shard, rows), and on the side "asks" (piece, rows)."""

    def __init__(self, folder, maker, wanted):
        super().__init__(folder)
        self.maker, self.wanted = maker, wanted

    def setup(self):
        self.table = Table.read(self.folder)

    def work(self, piece):
        wanted = np.array(self.wanted)
        corpus = self.table.corpus(self.folder, piece)
        if corpus is not None and (wanted >= 0).any():
            parts, asks = self.maker.give(corpus, piece, self.table, wanted[wanted >= 0])
            yield from parts
            for other, rows in asks:
                yield beam.pvalue.TaggedOutput("asks", (other, rows))
        if HELD in self.wanted:
            corpus = self.table.corpus(self.folder, piece, held_out=True)
            if corpus is not None:
                yield HELD, (piece, corpus)


class Answer(Work):
    """(piece, what was asked of it) -> (shard, rows)."""

    def __init__(self, folder, maker):
        super().__init__(folder)
        self.maker = maker

    def setup(self):
        self.table = Table.read(self.folder)

    def work(self, element):
        piece, asks = element
        corpus = self.table.corpus(self.folder, piece)
        yield from self.maker.answer(corpus, piece, self.table, asks)


class Write(Work):
    """(shard, rows) -> nothing; the shard is written."""

    def __init__(self, folder, maker):
        super().__init__(folder)
        self.maker = maker

    def work(self, element):
        shard, batches = element
        batches = [batch for batch in batches if batch is not None]
        if shard == HELD:
            corpora = [corpus for _, corpus in sorted(batches, key=lambda batch: batch[0])]
            self.folder.write_records(HELD_OUT, held_out_records(corpora))
        else:
            records, facts = self.maker.assemble(batches)
            name = shard_name(*divmod(shard, self.maker.shards))
            self.folder.write_records(name, records, **facts)
        return ()


def held_out_records(corpora):
    """A record a document: its tokens, and how many each sentence has."""
    for corpus in corpora:
        starts = corpus.sentence_starts
        for first, end in zip(corpus.document_starts[:-1], corpus.document_starts[1:], strict=True):
            yield example(
                tokens=corpus.tokens[starts[first] : starts[end]].tolist(),
                lengths=np.diff(starts[first : end + 1]).tolist(),
            )


def tokenize_pipeline(pipeline, folder, readers, todo, left, make_tokenizer, characters):
    """Reads the files `todo` (numbers of `readers`) and tokenizes their chunks and those `left`,
    which are (file, chunk)."""
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
        | "spread chunks" >> beam.Reshuffle()
        | "tokenize" >> beam.ParDo(Tokenize(folder, make_tokenizer))
    )


def shards_pipeline(pipeline, folder, maker, wanted, pieces):
    """Makes the shards of the numbers `wanted` from so many pieces."""
    given = (
        pipeline
        | "pieces" >> beam.Create(range(pieces))
        | "spread pieces" >> beam.Reshuffle()
        | "give"
        >> beam.ParDo(Give(folder, maker, wanted)).with_outputs("asks", main="rows")
    )
    # A shard without rows is written too.
    empty = pipeline | "shards" >> beam.Create([(shard, None) for shard in wanted])
    every = [_numbered(given.rows, "rows"), _numbered(empty, "empty")]
    if hasattr(maker, "answer"):
        asks = _numbered(given.asks, "asks") | "to their pieces" >> beam.GroupByKey()
        answers = asks | "answer" >> beam.ParDo(Answer(folder, maker))
        every.append(_numbered(answers, "answers"))
    return (
        every
        | beam.Flatten()
        | "to their shards" >> beam.GroupByKey()
        | "write" >> beam.ParDo(Write(folder, maker))
    )


def _numbered(rows, name):
    """Rows with keys that Beam knows to be ints, which every worker encodes alike."""
    return rows | name >> beam.Map(lambda row: row).with_output_types(tuple[int, Any])
