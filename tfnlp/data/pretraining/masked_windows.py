"""Masked windows of whole sentences, across the ends of documents or within them.

Liu et al. 2019 (RoBERTa), section 4.2, FULL-SENTENCES: a row is filled with sentences that follow
each other, up to its length; where a document ends, a separator stands before the next one. As in
fairseq, the windows of all epochs are the same; their order is drawn anew in each epoch and their
masks in each step. A sentence that is longer than a row is cut into several.
In DOC-SENTENCES documents are kept apart, several in a row: no sequence crosses the end of one.
"""

import functools

import numpy as np

from tfnlp.data.corpus.arrays import GrowingArray, ranges
from tfnlp.data.corpus.corpora import TokenizedCorpus
from tfnlp.data.pretraining.masked_rows import Epoch, MaskedRows
from tfnlp.data.pretraining.packed_rows import PackedRows

_BLOCK = 1 << 16  # sentences that are processed at once


def fill_windows(
    lengths: np.ndarray, first: np.ndarray, space: int, used: int
) -> tuple[np.ndarray, int]:
    """Fill windows of `space` places with the sentences `[S]` of a part of a corpus.

    Return the tokens of the part at which windows begin, int64 [W], and the places that are filled
    in the last window, which the next part may go on with: `used` are those of the part before.
    """
    counts = -(-lengths // space)  # parts of each sentence, all but the last of them full
    ends = np.cumsum(counts)
    parts = np.full(ends[-1], space, np.int64)
    parts[ends - 1] = lengths - (counts - 1) * space
    before = np.zeros(len(parts), np.int64)  # separators
    before[ends - counts] = first
    filled = np.concatenate([[0], np.cumsum(parts + before)])  # [U + 1]
    # The window from part i on ends before part following[i].
    following = np.searchsorted(filled, filled[:-1] + before + space, "right") - 1
    following, visited = following.tolist(), []
    at = int(np.searchsorted(filled, space - used, "right")) - 1 if used else 0
    while at < len(parts):
        visited.append(at)
        at = following[at]
    starts = np.cumsum(parts) - parts
    if not visited:
        return starts[:0], used + int(filled[-1])
    last = visited[-1]
    return starts[visited], int(filled[-1] - filled[last] - before[last])


class MaskedWindows(MaskedRows):
    """Batches of packed windows `[CLS] sentences [SEP]`, a pure function of (corpus, seed, step).

    A batch is that of `SentencePairs` without labels; its `input_type_ids` are 0. Arguments and
    errors are the same, too, but for `short_seq_prob` and `second`.
    """

    @functools.cached_property
    def _windows(self) -> np.ndarray:
        """The windows as ranges of tokens, int64 [W, 2]."""
        bounds, used = GrowingArray(np.int64), 0
        for begin in range(0, self.corpus.num_sentences, _BLOCK):
            sentences = np.asarray(self.corpus.sentence_starts[begin : begin + _BLOCK + 1])
            first = self.corpus.begins_document(begin, len(sentences) - 1)
            starts, used = fill_windows(np.diff(sentences), first, self.seq_length - 2, used)
            bounds.append(sentences[0] + starts)
        bounds.append(np.array([self.corpus.num_tokens], np.int64))
        bounds = bounds.finish()
        return np.stack([bounds[:-1], bounds[1:]], axis=1)

    @functools.cached_property
    def _documents(self) -> np.ndarray:
        """Where documents begin, int64 [D], tokens."""
        return np.asarray(self.corpus.sentence_starts)[self.corpus.document_starts[:-1]]

    def _draw(self, epoch: int) -> Epoch:
        return Epoch(self._shuffled(len(self._windows), epoch), self._windows)

    def _tokens(self, sequences: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        tokens, lengths, labels = super()._tokens(sequences)
        starts, ends = sequences.T
        first = np.searchsorted(self._documents, starts, "right")
        count = np.searchsorted(self._documents, ends) - first  # that begin within each window
        shift = np.cumsum(lengths) - lengths[:, 0] - starts
        places = ranges(self._documents, first, count) + np.repeat(shift, count)
        tokens = np.insert(tokens, places, int(self.tokenizer.sep_id))
        return tokens, lengths + count[:, np.newaxis], labels


class MaskedDocuments(MaskedRows):
    """Batches of rows `[CLS] document [SEP] [CLS] document [SEP] ...`, masked.

    A model that is built with `packed=True` keeps the attention of the documents apart and counts
    their positions anew. A document that is longer than a row is cut between sentences, a sentence
    that is longer within it. Which documents share a row follows from the text, see `first_fit`;
    the order of the rows is drawn with (seed, epoch) and the masks with (seed, step). Arguments are
    those of `MaskedWindows`, and a batch has one array more:

        sequence_ids  int32  [B, T]  the document's number in its row from 1 on, 0 for padding
    """

    packed = True

    @functools.cached_property
    def _sequences(self) -> tuple[np.ndarray, PackedRows]:
        """The documents, cut where they are too long, and the rows that they share."""
        documents = _cut(self.corpus, self.seq_length - 2)
        lengths = documents[:, 1] - documents[:, 0] + 2
        return documents, PackedRows(lengths, self.seq_length)

    def _draw(self, epoch: int) -> Epoch:
        documents, rows = self._sequences
        return Epoch(self._shuffled(rows.count, epoch), documents, rows)


def _cut(corpus: TokenizedCorpus, space: int) -> np.ndarray:
    """Return the parts of documents as ranges of tokens, int64 `[N, 2]`."""
    starts, documents = np.asarray(corpus.sentence_starts), np.asarray(corpus.document_starts)
    bounds = starts[documents]  # [D + 1]
    more = []
    for number in np.flatnonzero(np.diff(bounds) > space):
        lengths = np.diff(starts[documents[number] : documents[number + 1] + 1])
        windows, _ = fill_windows(lengths, np.zeros(len(lengths), bool), space, 0)
        more.append(bounds[number] + windows[1:])
    bounds = np.unique(np.concatenate([bounds, *more])).astype(np.int64)
    return np.stack([bounds[:-1], bounds[1:]], axis=1)
