"""Documents kept apart in rows of several, with masks: Liu et al. 2019, section 4.2, DOC-SENTENCES.

As `MaskedWindows`, but no row crosses the end of a document within a sequence.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.pretraining.masked_rows import MaskedRows
from tfnlp.data.pretraining.masked_windows import fill_windows
from tfnlp.data.pretraining.packed_rows import PackedRows
from tfnlp.data.pretraining.packing import Masker
from tfnlp.data.pretraining.sentence_pairs import check_ids


class MaskedDocuments(MaskedRows):
    """Batches of rows `[CLS] document [SEP] [CLS] document [SEP] ...`, masked.

    A model that is built with `packed=True` keeps the attention of the documents apart and counts
    their positions anew. A document that is longer than a row is cut between sentences, a sentence
    that is longer within it. Which documents share a row follows from the text, see `first_fit`;
    the order of the rows is drawn with (seed, epoch) and the masks with (seed, step): batches are
    a pure function of (corpus, seed, step). Step n belongs to epoch `n // steps_per_epoch`. A batch
    is that of `MaskedWindows` and

        sequence_ids  int32  [B, T]  the document's number in its row from 1 on, 0 for padding

    Args:
        corpus: the text.
        tokenizer: see `MaskedWindows`.
        batch_size: B, over all devices.
        seq_length: T, 8 or more.
        max_predictions: P, at most T.
        seed: int in [0, 2^31).
        mask_rate: fraction of the tokens to predict.
        whole_word: mask all pieces of a word or none.

    Raises:
        ValueError: an argument out of its range, or a corpus with ids of another tokenizer.
    """

    def __init__(
        self,
        corpus: TokenizedCorpus,
        tokenizer: Any,
        *,
        batch_size: int,
        seq_length: int = 128,
        max_predictions: int = 20,
        seed: int = 0,
        mask_rate: float = 0.15,
        whole_word: bool = False,
    ) -> None:
        self._mask = Masker(
            tokenizer,
            batch_size=batch_size,
            seq_length=seq_length,
            max_predictions=max_predictions,
            seed=seed,
            mask_rate=mask_rate,
            whole_word=whole_word,
        )
        check_ids(corpus, tokenizer)
        self.corpus, self.seq_length = corpus, seq_length
        self._special = [int(tokenizer.cls_id), int(tokenizer.sep_id), int(tokenizer.pad_id)]
        self._bounds = _cut(corpus, seq_length - 2)  # [N + 1], tokens
        self._lengths = np.diff(self._bounds) + 2
        self._rows = PackedRows(self._lengths, seq_length)
        specs = [tf.TensorSpec([batch_size, seq_length], tf.int32)] * 2
        super().__init__(self._rows.count, batch_size, seed, specs, self._masked)

    def _values(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and numbers of sequences, int32 `[B, T]`, before masks."""
        sequence, within, sequence_ids = self._rows.places(numbers)  # [B, T] each
        first, last = within == 0, within == self._lengths[sequence] - 1
        inside = (sequence_ids > 0) & ~first & ~last
        at = np.where(inside, self._bounds[sequence] + within - 1, 0)
        cls_id, sep_id, pad_id = self._special
        ids = np.where(inside, self.corpus.tokens[at], np.where(first, cls_id, sep_id))
        ids = np.where(sequence_ids > 0, ids, pad_id)
        return ids.astype(np.int32), sequence_ids.astype(np.int32)

    def _masked(
        self, ids: tf.Tensor, sequence_ids: tf.Tensor, step: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Return the batch."""
        real, (cls_id, sep_id, _) = sequence_ids > 0, self._special
        is_token = real & (ids != cls_id) & (ids != sep_id)
        masked = self._mask(ids, is_token, real, step)
        return {**masked, "input_type_ids": tf.zeros_like(ids), "sequence_ids": sequence_ids}


def _cut(corpus: TokenizedCorpus, space: int) -> np.ndarray:
    """Return where sequences begin, and the end of the last one: int64 `[N + 1]`, tokens."""
    starts, documents = np.asarray(corpus.sentence_starts), np.asarray(corpus.document_starts)
    bounds = starts[documents]  # [D + 1]
    more = []
    for number in np.flatnonzero(np.diff(bounds) > space):
        lengths = np.diff(starts[documents[number] : documents[number + 1] + 1])
        windows = fill_windows(lengths, np.zeros(len(lengths), bool), space, 0)
        more.append(bounds[number] + windows.starts[1:])
    return np.unique(np.concatenate([bounds, *more])).astype(np.int64)
