"""Windows of whole sentences, shard by shard: each worker has a piece of the corpus.

Windows are those of `MaskedWindows`. Where the windows of a piece begin depends on all pieces
before it, so one process counts them first, from the lengths of sentences alone. A window across
the end of a piece is joined in its shard from the parts of the pieces.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.pretraining.masked_windows import Windows, fill_windows
from tfnlp.data.shards.pieces import Table
from tfnlp.data.shards.rows import example, joined_windows, window_parts


@dataclass(frozen=True)
class MaskedWindowExamples:
    """Windows of `MaskedWindows`, with its arguments; see `PairExamples`.

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
        """As `PairExamples.give`; there are no requests."""
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
            parts += window_parts(
                stream, begin, end, numbers, piece, wanted,
                shards=self.shards, seed=self.seed, epoch=epoch,
            )  # fmt: skip
        return parts, []

    def assemble(self, batches: Iterable[dict]) -> tuple[Iterator[bytes], dict]:
        """As `PairExamples.assemble`."""
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


def _fill(corpus: TokenizedCorpus, seq_length: int, used: int) -> Windows:
    first = corpus.begins_document(0, corpus.num_sentences)
    return fill_windows(np.diff(corpus.sentence_starts), first, seq_length - 2, used)
