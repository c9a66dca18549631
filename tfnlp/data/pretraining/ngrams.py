"""Words of a corpus with the words before them, for n-gram models."""

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import CHUNK, scratch
from tfnlp.data.corpus.lm_corpus import LanguageModelCorpus
from tfnlp.data.numbered import EpochRows


class Ngrams(EpochRows):
    """Batches of n - 1 words and the word after them, a pure function of (corpus, seed, step).

    Every word of a sentence and its end `</S>` are targets, predicted from the words before them in
    the sentence, with `<S>` in front if there are fewer than n - 1. Words that are not in the
    vocabulary are `<UNK>`. Each epoch has all N targets once, in an order drawn with (seed, epoch);
    batches are rows of these epochs one after the other. A batch is a dict with
    B = batch_size:

        input_word_ids  int32   [B, n - 1]  the farthest word first
        targets         int32   [B]
        weights         float32 [B]         1; 0 for padding at the end of an evaluation

    Args:
        corpus: the text. The order of an epoch takes 8 bytes a target; that of a large text is on
            disk.
        context: n - 1.
        batch_size: B, over all devices.
        seed: int in [0, 2^63).
    """

    def __init__(
        self, corpus: LanguageModelCorpus, *, context: int, batch_size: int, seed: int = 0
    ) -> None:
        super().__init__(batch_size, seed)
        self.corpus, self.context = corpus, context
        self.num_tokens = self.rows_per_epoch = corpus.num_tokens
        self._starts = corpus.target_starts()

    def evaluation_batches(self, count: int | None = None) -> tf.data.Dataset:
        """Return every target once, in the order of the text; the last batch is padded.

        Args:
            count: largest number of batches, taken evenly from the text; None: all.
        """

        def gather(rows: np.ndarray) -> dict[str, np.ndarray]:
            batch = self._gather(np.minimum(rows, self.num_tokens - 1))
            return {**batch, "weights": (rows < self.num_tokens).astype(np.float32)}

        return self._evaluated(self.num_tokens, gather, count)

    def _draw(self, epoch: int) -> np.ndarray:
        """Draw the order of an epoch, int64 [N]."""
        order = scratch(self.num_tokens, np.int64)
        for first in range(0, len(order), CHUNK):
            order[first : first + CHUNK] = np.arange(first, min(first + CHUNK, len(order)))
        np.random.Generator(np.random.Philox(key=[self.seed, epoch])).shuffle(order)
        return order

    def _gather(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the targets `rows` [B] and the words before them."""
        starts = self.corpus.sentence_starts
        sentence = np.searchsorted(self._starts, rows, "right") - 1  # [B]
        words = rows - sentence  # as many ends of sentences are before a target
        places = words[:, np.newaxis] + np.arange(-self.context, 1)  # [B, n]
        first = starts[sentence][:, np.newaxis]
        real = (places >= first) & (places < starts[sentence + 1][:, np.newaxis])
        ids = self.corpus.ids[np.where(real, places, 0)]
        ids = np.where(ids < self.corpus.vocab_size, ids, self.corpus.unknown_id)
        ids = np.where(places < first, self.corpus.begin_id, ids)
        ids[words == starts[sentence + 1], -1] = self.corpus.end_id
        return {
            "input_word_ids": np.ascontiguousarray(ids[:, :-1], np.int32),
            "targets": np.ascontiguousarray(ids[:, -1], np.int32),
            "weights": np.ones(len(rows), np.float32),
        }
