"""Windows of text, shard by shard: each worker has a piece of the corpus.

A window across the end of a piece is joined in its shard from the parts of the pieces. Windows are
those of `TokenWindows` or, of whole sentences, of `MaskedWindows`. Where the latter begin in a
piece depends on all pieces before it, so one process counts them first, from the lengths of
sentences alone.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tfnlp.data.corpus.arrays import ranges
from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.pretraining.masked_windows import Windows, fill_windows
from tfnlp.data.pretraining.token_stream import (
    count_windows,
    token_stream,
    window_keys,
    window_shift,
)
from tfnlp.data.shards.pieces import Table
from tfnlp.data.shards.recipes import Maker, Recipe, example, grouped_tokens, merged, shard_of


class _WindowMaker(Maker):
    """Base of makers of windows; the seed decides the shard and the order of each window."""

    seed: int

    def _parts(
        self,
        epoch: int,
        piece: int,
        wanted: np.ndarray,
        numbers: np.ndarray,
        tokens: np.ndarray,
        begins: np.ndarray,
        ends: np.ndarray,
    ) -> Iterator[tuple[int, dict]]:
        """Yield what a piece has of the windows of an epoch: (shard, rows with tokens).

        Args:
            wanted: numbers of the shards to make.
            numbers: int64 [N], consecutive, those of the windows.
            tokens: of the piece.
            begins, ends: int64 [N], the windows as ranges of these tokens.
        """
        key = window_keys(int(numbers[0]), int(numbers[-1]) + 1, self.seed, epoch)
        shard = epoch * self.shards + shard_of(key, self.shards)
        place = np.full(len(numbers), piece)
        rows = {"key": key, "number": numbers, "place": place, "lengths": ends - begins}
        chosen = np.isin(shard, wanted)
        rows = {name: values[chosen] for name, values in rows.items()}
        return grouped_tokens(shard[chosen], tokens, begins[chosen], rows)


@dataclass(frozen=True)
class WindowExamples(_WindowMaker):
    """Windows of `TokenWindows` over a `token_stream`, with their arguments."""

    window: int
    seed: int
    shards: int
    newline_id: int
    end_id: int

    def give(
        self, corpus: TokenizedCorpus, piece: int, table: Table, wanted: np.ndarray
    ) -> tuple[Iterable, Iterable]:
        stream = token_stream(corpus, self.newline_id, self.end_id)
        first = int(table.first_document[piece])
        # The end token before a document belongs to the piece of the document before it.
        begin = int(table.first_token[piece] + table.documents[first])
        if first:
            stream, begin = stream[1:], begin + 1
        end = begin + len(stream)
        length = int(1 + table.first_token[-1] + table.documents[-1])
        count = count_windows(length, self.window)
        parts = []
        for epoch in np.unique(wanted // self.shards).tolist():
            shift = window_shift(length, self.window, self.seed, epoch)
            # Window w has the places shift + w T to shift + (w + 1) T.
            lowest = max(0, -(-(begin - shift) // self.window) - 1)
            highest = min(count - 1, (end - 1 - shift) // self.window)
            if highest < lowest:
                continue
            numbers = np.arange(lowest, highest + 1)
            starts = np.maximum(shift + numbers * self.window, begin) - begin
            ends = np.minimum(shift + (numbers + 1) * self.window + 1, end) - begin
            parts += self._parts(epoch, piece, wanted, numbers, stream, starts, ends)
        return parts, []

    def assemble(self, batches: Iterable[dict]) -> tuple[Iterator[bytes], dict]:
        windows = joined_windows(batches)
        if any(len(ids) != self.window + 1 for ids in windows):
            raise OSError("a shard lacks parts of its windows; give the same command again")
        return (example(ids=ids.tolist()) for ids in windows), {"examples": len(windows)}


@dataclass(frozen=True)
class WindowRecipe(Recipe):
    """Windows of the stream of tokens, with the key "seq_length" of settings.

    Attributes:
        newline_id, end_id: see `token_stream`.
    """

    shape: ClassVar[str] = "windows"
    paragraphs: ClassVar[bool] = True

    newline_id: int
    end_id: int

    def maker(self, settings: dict, shards: int, train: dict, corpora: Callable) -> WindowExamples:
        count_windows(1 + train["tokens"] + train["sentences"], settings["seq_length"])
        return WindowExamples(
            settings["seq_length"], settings["seed"], shards, self.newline_id, self.end_id
        )


@dataclass(frozen=True)
class MaskedWindowExamples(_WindowMaker):
    """Windows of `MaskedWindows`, with its arguments.

    Attributes:
        sep_id: the token between documents.
        entries: for each piece, the number of windows that begin before it, and the filled places
            of the last of them.
    """

    seq_length: int
    seed: int
    shards: int
    sep_id: int
    entries: tuple[tuple[int, int], ...]

    @classmethod
    def of_pieces(
        cls, corpora: Iterable[TokenizedCorpus | None], seq_length: int, **arguments: int
    ) -> "MaskedWindowExamples":
        """Count the windows of all pieces."""
        entries, number, used = [], 0, 0
        for corpus in corpora:
            entries.append((number, used))
            if corpus is not None:
                found = _fill(corpus, seq_length, used)
                number, used = number + len(found.starts), found.used
        return cls(seq_length, entries=tuple(entries), **arguments)

    def give(
        self, corpus: TokenizedCorpus, piece: int, table: Table, wanted: np.ndarray
    ) -> tuple[Iterable, Iterable]:
        number, used = self.entries[piece]
        starts = _fill(corpus, self.seq_length, used).starts
        if used and (not len(starts) or starts[0] > 0):  # the window before goes on
            number, starts = number - 1, np.concatenate([[0], starts])
        numbers = number + np.arange(len(starts))
        stream, begin, end = self._ranges(corpus, starts)
        if used and numbers[0] < self.entries[piece][0]:
            begin[0] = 0  # with the separator before the first document
        parts = []
        for epoch in np.unique(wanted // self.shards).tolist():
            parts += self._parts(epoch, piece, wanted, numbers, stream, begin, end)
        return parts, []

    def assemble(self, batches: Iterable[dict]) -> tuple[Iterator[bytes], dict]:
        windows = joined_windows(batches)
        return (example(ids=ids.tolist()) for ids in windows), {"examples": len(windows)}

    def _ranges(
        self, corpus: TokenizedCorpus, starts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the tokens with a separator before each document, and the windows' ranges there.

        A window neither begins nor ends with a separator.
        """
        documents = corpus.sentence_starts[corpus.document_starts[:-1]]
        stream = np.insert(corpus.tokens.astype(np.int32), documents, self.sep_id)
        begin = starts + np.searchsorted(documents, starts, "right")
        end = starts[1:] + np.searchsorted(documents, starts[1:], "left")
        return stream, begin, np.append(end, len(stream))


@dataclass(frozen=True)
class MaskedWindowRecipe(Recipe):
    """Windows of whole sentences, with the key "seq_length" of settings.

    Attributes:
        sep_id: the token between documents.
    """

    shape: ClassVar[str] = "masked_windows"

    sep_id: int

    def maker(
        self, settings: dict, shards: int, train: dict, corpora: Callable
    ) -> MaskedWindowExamples:
        return MaskedWindowExamples.of_pieces(
            corpora(),
            settings["seq_length"],
            seed=settings["seed"],
            shards=shards,
            sep_id=self.sep_id,
        )


def joined_windows(batches: Iterable[dict]) -> list[np.ndarray]:
    """Return the windows of a shard in their order, joined from the parts of the pieces."""
    batches = list(batches)
    if not batches:
        return []
    rows = merged(batches)
    starts = np.cumsum(rows["lengths"]) - rows["lengths"]
    order = np.lexsort((rows["place"], rows["number"], rows["key"]))
    lengths, numbers = rows["lengths"][order], rows["number"][order]
    borders = np.flatnonzero(np.diff(numbers)) + 1
    tokens = ranges(rows["tokens"], starts[order], lengths)
    return np.split(tokens, np.cumsum(lengths)[borders - 1])


def _fill(corpus: TokenizedCorpus, seq_length: int, used: int) -> Windows:
    first = corpus.begins_document(0, corpus.num_sentences)
    return fill_windows(np.diff(corpus.sentence_starts), first, seq_length - 2, used)
