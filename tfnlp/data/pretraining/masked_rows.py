"""Masked batches of rows that are drawn for each epoch: of sentence pairs, windows or documents."""

import functools
import threading
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import chunks, ranges
from tfnlp.data.corpus.corpora import TokenizedCorpus
from tfnlp.data.numbered import check_seed
from tfnlp.data.pretraining.packed_rows import PackedRows
from tfnlp.data.pretraining.token_stream import window_keys
from tfnlp.text.masking import mask_tokens

_SPECIAL = ("pad", "unk", "cls", "sep", "mask")  # never a random replacement


class RowPacker:
    """A function of the graph that packs sequences into rows and masks them with (seed, step).

    A sequence is `[CLS] A [SEP]` or, of two segments, `[CLS] A [SEP] B [SEP]`. A row of T places
    has one sequence, or several if `packed`; padding is on the right. `rows` are the batches,
    which say what a row is; for the other arguments see `SentencePairs`.
    """

    def __init__(
        self,
        rows: "MaskedEpochs",
        tokenizer: Any,
        *,
        batch_size: int,
        seq_length: int,
        seed: int,
        max_predictions: int = 20,
        mask_rate: float = 0.15,
        whole_word: bool = False,
    ) -> None:
        check_rows(seq_length, seed)
        if not 1 <= max_predictions <= seq_length:
            raise ValueError(
                f"max_predictions must lie in [1, seq_length={seq_length}]; got {max_predictions}"
            )
        if rows.segments == 2 and getattr(tokenizer, "separators", 1) != 1:
            raise ValueError(
                "tokenizer puts several tokens between two segments; use windows of sentences "
                "(MaskedWindows)"
            )
        self._tokenizer, self._seed = tokenizer, seed
        self._size, self._length, self._segments = batch_size, seq_length, rows.segments
        self._label, self._packed = rows.label, rows.packed
        self._masking = {
            "mask_id": tokenizer.mask_id,
            "vocab_size": tokenizer.vocab_size,
            "random_floor": [getattr(tokenizer, f"{name}_id") for name in _SPECIAL],
            "max_predictions": max_predictions,
            "rate": mask_rate,
            "is_continuation": tokenizer.is_continuation if whole_word else None,
        }

    def __call__(
        self,
        tokens: tf.Tensor,
        lengths: tf.Tensor,
        counts: tf.Tensor,
        labels: tf.Tensor,
        step: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Return the batch of the tokens [N] of all segments, one after the other.

        A sequence has the `lengths` [M, S] of its segments and a label, a row the `counts` [B] of
        its sequences, 1 or more. Separators within a segment, at the ends of documents, are not
        masked.
        """
        length, tokenizer = self._length, self._tokenizer
        sizes = 1 + tf.reduce_sum(lengths + 1, axis=1)  # [M], places of each sequence
        first = tf.cumsum(counts, exclusive=True)  # [B], number of the first sequence of each row
        before = tf.cumsum(sizes, exclusive=True)
        row = tf.repeat(tf.range(self._size, dtype=tf.int64), counts)  # [M]
        column = before - tf.gather(before, tf.gather(first, row))  # [M], of each [CLS]

        # For each place [B, T]: the sequence, where it is in it, and its token.
        if self._packed:
            places = self._size * length
            begins = row * length + column
            sequence = tf.cumsum(tf.scatter_nd(begins[:, None], tf.ones_like(begins), [places])) - 1
            within = tf.range(places, dtype=tf.int64) - tf.gather(begins, sequence)
            sequence, within = (tf.reshape(x, [self._size, length]) for x in (sequence, within))
        else:  # broadcast: the look-ups are then a fraction
            sequence = tf.range(self._size, dtype=tf.int64)[:, None]  # [B, 1]
            within = tf.range(length, dtype=tf.int64)[None]  # [1, T]
        real = within < tf.gather(sizes, sequence)
        offset = within - 1  # from the first token of the segment
        position, inside = tf.zeros_like(offset), tf.zeros_like(real)
        types = tf.zeros_like(real)
        starts = tf.reshape(
            tf.cumsum(tf.reshape(lengths, [-1]), exclusive=True), [-1, self._segments]
        )
        for segment in range(self._segments):
            tokens_here = tf.gather(lengths[:, segment], sequence)
            here = (offset >= 0) & (offset < tokens_here)
            at = tf.gather(starts[:, segment], sequence) + offset
            inside, position = inside | here, tf.where(here, at, position)
            if segment:
                types = real & (offset >= 0)
            offset -= tokens_here + 1
        special = tf.where(within == 0, tokenizer.cls_id, tokenizer.sep_id)
        ids = tf.where(inside, tf.gather(tokens, position), special)
        ids = tf.where(real, ids, tokenizer.pad_id)

        batch = mask_tokens(
            ids,
            inside & (ids != tokenizer.sep_id),
            tf.stack([self._seed, tf.cast(step, tf.int32)]),
            **self._masking,
        )
        batch["input_mask"] = tf.cast(real, tf.int32)
        batch["input_type_ids"] = tf.cast(types, tf.int32)
        if self._packed:
            number = tf.where(real, sequence - first[:, None] + 1, 0)
            batch["sequence_ids"] = tf.cast(number, tf.int32)
        if self._label is not None:
            batch |= self._labelled(column, counts, tf.cast(labels, tf.int32))
        return batch

    def _labelled(
        self, column: tf.Tensor, counts: tf.Tensor, labels: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Return the labels of sequences, and if there are several in a row, where these are."""
        if not self._packed:
            return {self._label: tf.ensure_shape(labels, [self._size])}
        slots = self._length // (1 + 2 * self._segments)  # a segment has one token or more

        def in_slots(values: tf.Tensor) -> tf.Tensor:  # [M] -> [B, slots]
            rows = tf.RaggedTensor.from_row_lengths(values, counts, validate=False)
            return rows.to_tensor(shape=[self._size, slots])

        return {
            "first_positions": in_slots(tf.cast(column, tf.int32)),
            self._label: in_slots(labels),
            self._label.replace("_labels", "_weights"): in_slots(tf.ones_like(labels, tf.float32)),
        }


def masked_positions(seq_length: int) -> int:
    """Return the number of masked positions of a sequence: 15 % of its length, rounded up.

    It is 20 for 128 tokens and 77 for 512, as in the reference code of BERT.
    """
    return max(1, -(-seq_length * 15 // 100))


def check_rows(seq_length: int, seed: int) -> None:
    """Raise a ValueError if no rows can be drawn with these arguments."""
    if seq_length < 8:
        raise ValueError(f"seq_length must be 8 or more, to hold two sentences; got {seq_length}")
    check_seed(seed)


class Epoch(NamedTuple):
    """The rows of an epoch.

    A sequence has its segments as ranges of the corpus's tokens (start, end, start, end ...); of
    labelled ones the label follows. Without `rows`, row n has sequence n alone.
    """

    order: np.ndarray  # int64 [R], the numbers of the rows in their order
    sequences: np.ndarray  # int64 [N, 2 S or more]
    rows: PackedRows | None = None


class MaskedEpochs:
    """Base of batches of masked rows in epochs of `num_examples` rows."""

    segments = 1  # S, of a sequence, 1 or 2
    label: str | None = None  # the batch's name of the labels, which ends in `_labels`
    packed = False  # whether rows have several sequences
    random_share = 0.0  # of the pairs of epoch 0 with a random second segment

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
    drawn, the first ones are repeated. A subclass adds `_draw(epoch)`, the `Epoch`.

    Arguments and errors are those of `SentencePairs`, but for `short_seq_prob` and `second`.
    """

    def __init__(
        self,
        corpus: TokenizedCorpus,
        tokenizer: Any,
        *,
        batch_size: int,
        seq_length: int = 128,
        seed: int = 0,
        **masking: Any,
    ) -> None:
        sizes = {"batch_size": batch_size, "seq_length": seq_length}
        pack = RowPacker(self, tokenizer, seed=seed, **sizes, **masking)
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
        width = 2 * self.segments
        starts, lengths = sequences[:, :width:2], np.diff(sequences[:, :width])[:, ::2]  # [M, S]
        tokens = ranges(self.corpus.tokens, starts.ravel(), lengths.ravel())
        labelled = sequences.shape[1] > width
        labels = sequences[:, width] if labelled else np.zeros(len(sequences), np.int64)
        return tokens.astype(np.int32, copy=False), lengths, labels
