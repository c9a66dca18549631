"""Masked batches of rows that are drawn for each epoch: of sentence pairs, windows or documents."""

import functools
import threading
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import chunks, ranges
from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.pretraining.packed_rows import PackedRows
from tfnlp.data.pretraining.packing import RowPacker
from tfnlp.data.pretraining.token_stream import window_keys


class Epoch(NamedTuple):
    """The rows of an epoch.

    Attributes:
        order: int64 [R], the numbers of the rows in their order.
        sequences: int64 [N, 2 S or more], the segments of each sequence as ranges of the corpus's
            tokens (start, end, start, end ...); of labelled ones the label follows.
        rows: which sequences are in a row; None: row n has sequence n alone.
    """

    order: np.ndarray
    sequences: np.ndarray
    rows: PackedRows | None = None


class MaskedEpochs:
    """Base of batches of masked rows in epochs of `num_examples` rows.

    Attributes:
        segments: of a sequence, 1 or 2.
        label: the batch's name of the labels, or None.
    """

    segments = 1
    label: str | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in an epoch; 1 for a text smaller than a batch, whose rows repeat."""
        return max(1, self.num_examples // self.batch_size)

    def evaluation_batches(self, max_batches: int) -> tf.data.Dataset:
        """Return the first `max_batches` batches of epoch 0, or all; the same at every call."""
        return self.dataset().take(min(max_batches, self.steps_per_epoch))


class MaskedRows(MaskedEpochs):
    """Batches of packed and masked rows, a pure function of (corpus, seed, step).

    Step n belongs to epoch `n // steps_per_epoch`. No batch depends on the batches before it. All
    epochs have as many rows as the first one: if more are drawn, the rest is left out; if fewer are
    drawn, the first ones are repeated. A subclass adds `_draw(epoch)`, the `Epoch`, and says how
    many segments a sequence has, whether a row has several sequences, and the name of their labels.

    Arguments and errors are those of `SentencePairs`, but for `short_seq_prob` and `second`.
    """

    packed = False
    random_share = 0.0  # of second segments

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
        pack = RowPacker(
            tokenizer,
            batch_size=batch_size,
            seq_length=seq_length,
            max_predictions=max_predictions,
            seed=seed,
            mask_rate=mask_rate,
            whole_word=whole_word,
            segments=self.segments,
            label=self.label,
            packed=self.packed,
        )
        largest = max(int(part.max()) for part in chunks(corpus.tokens))
        if largest >= tokenizer.vocab_size:
            raise ValueError(
                f"corpus holds the id {largest}, but the tokenizer has only "
                f"{tokenizer.vocab_size} ids; tokenize the corpus with this tokenizer"
            )
        self.corpus, self.tokenizer, self.seed = corpus, tokenizer, seed
        self.batch_size, self.seq_length = batch_size, seq_length
        self._specs = [
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None, self.segments], tf.int64),
            tf.TensorSpec([batch_size], tf.int64),
            tf.TensorSpec([None], tf.int64),
        ]
        self._pack = tf.function(pack, [*self._specs, tf.TensorSpec([], tf.int64)], autograph=False)
        self._lock = threading.Lock()  # tf.data calls from several threads
        # The current epoch and the next one, which tf.data prefetches.
        self._drawn = functools.lru_cache(maxsize=2)(self._draw)
        self.num_examples = len(self._drawn(0).order)

    def batch(self, step: int) -> dict[str, tf.Tensor]:
        """Return the batch of a step, see the class."""
        with tf.device("CPU:0"):  # the device of tf.data
            return self._pack(*self._read(step), step)

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset of static shapes; element n is `batch(first_step + n)`."""

        @tf.autograph.experimental.do_not_convert
        def element(step: tf.Tensor) -> dict[str, tf.Tensor]:
            values = tf.numpy_function(self._read, [step], [s.dtype for s in self._specs], False)
            shaped = zip(values, self._specs, strict=True)
            return self._pack(*(tf.ensure_shape(x, spec.shape) for x, spec in shaped), step)

        steps = tf.data.Dataset.range(first_step, tf.int64.max)
        batches = steps.map(element, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return batches.prefetch(tf.data.AUTOTUNE)

    def _epoch(self, epoch: int) -> Epoch:
        with self._lock:
            return self._drawn(epoch)

    def _shuffled(self, count: int, epoch: int) -> np.ndarray:
        """Return the numbers of `count` rows in the order of an epoch."""
        return np.argsort(window_keys(0, count, self.seed, epoch), kind="stable")

    def _read(self, step: int) -> tuple[np.ndarray, ...]:
        """Return the arguments of `RowPacker` for a step."""
        epoch, position = divmod(int(step), self.steps_per_epoch)
        order, sequences, rows = self._epoch(epoch)
        numbers = position * self.batch_size + np.arange(self.batch_size)
        # An epoch with fewer rows repeats its first ones.
        numbers = order[numbers % self.num_examples % len(order)]
        counts = np.ones(self.batch_size, np.int64)
        if rows is not None:
            numbers, counts = rows.members(numbers)
        tokens, lengths, labels = self._tokens(sequences[numbers])
        return tokens, lengths, counts, labels

    def _tokens(self, sequences: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the tokens of sequences, the lengths of their segments, and their labels."""
        width = 2 * self.segments
        starts, lengths = sequences[:, :width:2], np.diff(sequences[:, :width])[:, ::2]  # [M, S]
        tokens = ranges(self.corpus.tokens, starts.ravel(), lengths.ravel())
        labelled = sequences.shape[1] > width
        labels = sequences[:, width] if labelled else np.zeros(len(sequences), np.int64)
        return tokens.astype(np.int32, copy=False), lengths, labels
