"""Documents kept apart in rows of several, with masks: Liu et al. 2019, section 4.2, DOC-SENTENCES.

As `MaskedWindows`, but no row crosses the end of a document within a sequence.
"""

import functools

import numpy as np

from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.pretraining.masked_rows import Epoch, MaskedRows
from tfnlp.data.pretraining.masked_windows import fill_windows
from tfnlp.data.pretraining.packed_rows import PackedRows


class MaskedDocuments(MaskedRows):
    """Batches of rows `[CLS] document [SEP] [CLS] document [SEP] ...`, masked.

    A model that is built with `packed=True` keeps the attention of the documents apart and counts
    their positions anew. A document that is longer than a row is cut between sentences, a sentence
    that is longer within it. Which documents share a row follows from the text, see `first_fit`;
    the order of the rows is drawn with (seed, epoch) and the masks with (seed, step): batches are
    a pure function of (corpus, seed, step). Step n belongs to epoch `n // steps_per_epoch`. A batch
    is that of `MaskedWindows` and

        sequence_ids  int32  [B, T]  the document's number in its row from 1 on, 0 for padding

    Arguments and errors are those of `SentencePairs`, but for `short_seq_prob` and `second`.
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
        windows = fill_windows(lengths, np.zeros(len(lengths), bool), space, 0)
        more.append(bounds[number] + windows.starts[1:])
    bounds = np.unique(np.concatenate([bounds, *more])).astype(np.int64)
    return np.stack([bounds[:-1], bounds[1:]], axis=1)
