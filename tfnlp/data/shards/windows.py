"""Windows of text, shard by shard: each worker has a piece of the corpus.

A window across the end of a piece is joined in its shard from the parts of the pieces. Windows are
those of `TokenWindows` or, of whole sentences, of `MaskedWindows`. Where the latter begin in a
piece depends on all pieces before it, so one process counts them first, from the lengths of
sentences alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tfnlp.data.corpus.arrays import ranges
from tfnlp.data.corpus.corpora import TokenizedCorpus
from tfnlp.data.pretraining.masked_windows import fill_windows
from tfnlp.data.pretraining.token_stream import (
    count_windows,
    token_stream,
    window_keys,
    window_shift,
)
from tfnlp.data.shards.pieces import Table
from tfnlp.data.shards.recipes import Recipe, example, grouped_tokens, in_order


class _Windows(Recipe):
    """Windows whose shards and order follow from the seed."""

    size: int | None = None  # tokens of each window; None: any number

    def _parts(
        self,
        epochs: Iterable[int],
        piece: int,
        wanted: np.ndarray,
        numbers: np.ndarray,
        tokens: np.ndarray,
        begins: np.ndarray,
        ends: np.ndarray,
    ) -> Iterator[tuple[int, dict]]:
        """Yield what a piece has of the windows of epochs: (wanted shard, rows with tokens).

        Their numbers are consecutive, [N]; `begins` and `ends` are places in the piece's tokens.
        """
        for epoch in epochs:
            keys = window_keys(int(numbers[0]), int(numbers[-1]) + 1, self.chosen["seed"], epoch)
            shard = self._shard_of(epoch, keys)
            side = np.full(len(numbers), piece)
            rows = {"key": keys, "number": numbers, "side": side, "lengths": ends - begins}
            chosen = np.isin(shard, wanted)
            rows = {name: values[chosen] for name, values in rows.items()}
            yield from grouped_tokens(shard[chosen], tokens, begins[chosen], rows)

    def assemble(self, batches: Iterable[dict]) -> tuple[Iterator[bytes], dict]:
        batches, windows = list(batches), []
        if batches:
            rows = in_order(batches)
            borders = np.flatnonzero(np.diff(rows["number"])) + 1
            tokens = ranges(rows["tokens"], rows["starts"], rows["lengths"])
            windows = np.split(tokens, np.cumsum(rows["lengths"])[borders - 1])
        if self.size is not None and any(len(ids) != self.size for ids in windows):
            raise OSError("a shard lacks parts of its windows; give the same command again")
        return (example(ids=ids.tolist()) for ids in windows), {"examples": len(windows)}


@dataclass(frozen=True)
class WindowRecipe(_Windows):
    """Windows of `TokenWindows` over a `token_stream`, with the key "seq_length" of settings."""

    shape: ClassVar[str] = "windows"
    paragraphs: ClassVar[bool] = True

    newline_id: int
    end_id: int

    @property
    def size(self) -> int:
        return self.chosen["seq_length"] + 1

    def for_text(
        self, settings: dict[str, Any], shards: int, train: dict[str, int], corpora: Iterable
    ) -> Recipe:
        count_windows(1 + train["tokens"] + train["sentences"], settings["seq_length"])
        return super().for_text(settings, shards, train, corpora)

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
        window = self.chosen["seq_length"]
        count = count_windows(length, window)
        parts = []
        for epoch in self._epochs(wanted):
            shift = window_shift(length, window, self.chosen["seed"], epoch)
            # Window w has the places shift + w T to shift + (w + 1) T.
            lowest = max(0, -(-(begin - shift) // window) - 1)
            highest = min(count - 1, (end - 1 - shift) // window)
            if highest < lowest:
                continue
            numbers = np.arange(lowest, highest + 1)
            starts = np.maximum(shift + numbers * window, begin) - begin
            ends = np.minimum(shift + (numbers + 1) * window + 1, end) - begin
            parts += self._parts([epoch], piece, wanted, numbers, stream, starts, ends)
        return parts, []


@dataclass(frozen=True)
class MaskedWindowRecipe(_Windows):
    """Windows of `MaskedWindows`, with the key "seq_length" of settings."""

    shape: ClassVar[str] = "masked_windows"

    sep_id: int  # between documents
    # For each piece the number of windows that begin before it, and the filled places of the last.
    entries: tuple[tuple[int, int], ...] = ()

    def for_text(
        self, settings: dict[str, Any], shards: int, train: dict[str, int], corpora: Iterable
    ) -> Recipe:
        recipe = super().for_text(settings, shards, train, corpora)
        entries, number, used = [], 0, 0
        for corpus in corpora:
            entries.append((number, used))
            if corpus is not None:
                starts, used = recipe._fill(corpus, used)
                number += len(starts)
        return replace(recipe, entries=tuple(entries))

    def give(
        self, corpus: TokenizedCorpus, piece: int, table: Table, wanted: np.ndarray
    ) -> tuple[Iterable, Iterable]:
        number, used = self.entries[piece]
        starts, _ = self._fill(corpus, used)
        if used and (not len(starts) or starts[0] > 0):  # the window before goes on
            number, starts = number - 1, np.concatenate([[0], starts])
        numbers = number + np.arange(len(starts))
        # A separator before each document; a window neither begins nor ends with one.
        documents = corpus.sentence_starts[corpus.document_starts[:-1]]
        stream = np.insert(corpus.tokens.astype(np.int32), documents, self.sep_id)
        begin = starts + np.searchsorted(documents, starts, "right")
        end = starts[1:] + np.searchsorted(documents, starts[1:], "left")
        if used and numbers[0] < self.entries[piece][0]:
            begin[0] = 0  # with the separator before the first document
        end = np.append(end, len(stream))
        return self._parts(self._epochs(wanted), piece, wanted, numbers, stream, begin, end), []

    def _fill(self, corpus: TokenizedCorpus, used: int) -> tuple[np.ndarray, int]:
        first = corpus.begins_document(0, corpus.num_sentences)
        lengths = np.diff(corpus.sentence_starts)
        return fill_windows(lengths, first, self.chosen["seq_length"] - 2, used)
