"""Windows of a left-to-right model, shard by shard: each worker has a piece of the token stream.

Windows are those of `TokenWindows`. A window across the end of a piece is joined in its shard from
the parts of the pieces.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.pretraining.token_stream import (
    count_windows,
    token_stream,
    window_shift,
)
from tfnlp.data.shards.pieces import Table
from tfnlp.data.shards.rows import example, joined_windows, window_parts


@dataclass(frozen=True)
class WindowExamples:
    """Windows of `TokenWindows` over a `token_stream`, with their arguments; see `PairExamples`."""

    window: int
    seed: int
    shards: int
    newline_id: int
    end_id: int

    def give(
        self, corpus: TokenizedCorpus, piece: int, table: Table, wanted: np.ndarray
    ) -> tuple[Iterable, Iterable]:
        """As `PairExamples.give`; there are no requests."""
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
            parts += window_parts(
                stream, starts, ends, numbers, piece, wanted,
                shards=self.shards, seed=self.seed, epoch=epoch,
            )  # fmt: skip
        return parts, []

    def assemble(self, batches: Iterable[dict]) -> tuple[Iterator[bytes], dict]:
        """As `PairExamples.assemble`."""
        windows = joined_windows(batches)
        if any(len(ids) != self.window + 1 for ids in windows):
            raise OSError("a shard lacks parts of its windows; give the same command again")
        return (example(ids=ids.tolist()) for ids in windows), {"examples": len(windows)}
