"""Words of a corpus with the words before them, for n-gram models."""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import CHUNK, scratch
from tfnlp.data.corpus.lm_corpus import LanguageModelCorpus


class Ngrams:
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

    Raises:
        ValueError: an argument out of its range.
    """

    def __init__(
        self, corpus: LanguageModelCorpus, *, context: int, batch_size: int, seed: int = 0
    ) -> None:
        if context < 1:
            raise ValueError(f"context must be 1 or more; got {context}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more; got {batch_size}")
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed must lie in [0, 2^63); got {seed}")
        self.corpus, self.context, self.batch_size, self.seed = corpus, context, batch_size, seed
        self.num_tokens = corpus.num_tokens
        self._starts = corpus.target_starts()
        self._order = functools.lru_cache(maxsize=2)(self._draw)

    @property
    def steps_per_epoch(self) -> float:
        """Targets of the corpus divided by the batch size."""
        return self.num_tokens / self.batch_size

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """Return the batch of a step, see the class."""
        rows = int(step) * self.batch_size + np.arange(self.batch_size)
        epochs, places = np.divmod(rows, self.num_tokens)
        chosen = np.empty(self.batch_size, np.int64)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            chosen[here] = self._order(int(epoch))[places[here]]
        return self._gather(chosen, np.ones(self.batch_size, np.float32))

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset whose element n equals `batch(first_step + n)`.

        Shapes are static.
        """
        return self._dataset(tf.data.Dataset.range(first_step, tf.int64.max), self.batch)

    def evaluation_batches(self, count: int | None = None) -> tf.data.Dataset:
        """Return every target once, in the order of the text; the last batch is padded.

        Args:
            count: largest number of batches, taken evenly from the text; None: all.

        Raises:
            ValueError: a count below 1.
        """
        if count is not None and count < 1:
            raise ValueError(f"count must be None, 1 or more; got {count}")
        total = -(-self.num_tokens // self.batch_size)
        chosen = np.arange(total)
        if count is not None and count < total:
            chosen = np.arange(count) * total // count
        return self._dataset(tf.data.Dataset.from_tensor_slices(chosen), self._evaluation_batch)

    def _evaluation_batch(self, number: int) -> dict[str, np.ndarray]:
        rows = int(number) * self.batch_size + np.arange(self.batch_size)
        real = rows < self.num_tokens
        return self._gather(np.minimum(rows, self.num_tokens - 1), real.astype(np.float32))

    def _draw(self, epoch: int) -> np.ndarray:
        """Draw the order of an epoch, int64 [N]."""
        order = scratch(self.num_tokens, np.int64)
        for first in range(0, len(order), CHUNK):
            order[first : first + CHUNK] = np.arange(first, min(first + CHUNK, len(order)))
        np.random.Generator(np.random.Philox(key=[self.seed, epoch])).shuffle(order)
        return order

    def _gather(self, rows: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
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
            "weights": weights,
        }

    def _dataset(
        self, numbers: tf.data.Dataset, function: Callable[[int], dict[str, np.ndarray]]
    ) -> tf.data.Dataset:
        names = ["input_word_ids", "targets", "weights"]
        shapes = [[self.batch_size, self.context], [self.batch_size], [self.batch_size]]

        @tf.autograph.experimental.do_not_convert
        def element(number: tf.Tensor) -> dict[str, tf.Tensor]:
            values = tf.numpy_function(
                lambda number: list(function(number).values()),
                [number],
                [tf.int32, tf.int32, tf.float32],
                stateful=False,
            )
            values = [tf.ensure_shape(v, shape) for v, shape in zip(values, shapes, strict=True)]
            return dict(zip(names, values, strict=True))

        batches = numbers.map(element, num_parallel_calls=2, deterministic=True)
        return batches.prefetch(2)
