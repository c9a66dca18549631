"""Batches from shards of examples, equal to those that are made of the text itself.

Rows are read from the shards in order. Masks are drawn when they are read, with (seed, step), as
for rows from a corpus in memory. After the last epoch of the shards the first one is read again,
with other masks.
"""

import os
from typing import Any

import tensorflow as tf

from tfnlp.data.pretraining.masked_rows import MaskedEpochs
from tfnlp.data.pretraining.packing import RowPacker
from tfnlp.data.pretraining.pair_sampling import LABELS
from tfnlp.data.shards.pairs import label_feature
from tfnlp.data.shards.reading import Shards

_TOKENS = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)


class BatchShards(Shards):
    """Batches of the records of shards.

    A subclass adds `_parse(records, step)`, the batch of strings `[B]` in the graph, and
    `rows_per_epoch`.
    """

    batch_size: int

    def batch(self, step: int) -> dict[str, tf.Tensor]:
        """Return the batch of a step; for many batches, `dataset` is faster."""
        return next(iter(self.dataset(step)))

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset of static shapes; element n is `batch(first_step + n)`."""
        signature = [tf.TensorSpec([self.batch_size], tf.string), tf.TensorSpec([], tf.int64)]
        parse = tf.function(self._parse, signature, autograph=False)
        records = self.records(first_step * self.batch_size, self.rows_per_epoch)
        batches = records.batch(self.batch_size, drop_remainder=True)
        steps = tf.data.Dataset.range(first_step, tf.int64.max)
        batches = tf.data.Dataset.zip(batches, steps).map(
            parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
        return batches.prefetch(tf.data.AUTOTUNE)


class MaskedShards(MaskedEpochs, BatchShards):
    """Rows from shards that are masked when they are read.

    `batch(n)` equals that of the class named below with the same seed, sizes and training text, bit
    for bit, for all epochs that are in the shards. A subclass adds `_read(records)`: tokens,
    lengths and labels, as `RowPacker` takes them.

    Args:
        directory: the output of `tfnlp examples`.
        tokenizer: that of the vocabulary in `directory`.
        batch_size, max_predictions, mask_rate, whole_word: as of that class.
        seed: of the masks; None: that of the examples.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        tokenizer: Any,
        *,
        batch_size: int,
        max_predictions: int = 20,
        seed: int | None = None,
        mask_rate: float = 0.15,
        whole_word: bool = False,
    ) -> None:
        super().__init__(directory)
        self.batch_size, self.tokenizer = batch_size, tokenizer
        self.seq_length = self.settings["seq_length"]
        self.seed = self.settings["seed"] if seed is None else seed
        self._pack = RowPacker(
            tokenizer,
            batch_size=batch_size,
            seq_length=self.seq_length,
            max_predictions=max_predictions,
            seed=self.seed,
            mask_rate=mask_rate,
            whole_word=whole_word,
            segments=self.segments,
            label=self.label,
        )

    @property
    def rows_per_epoch(self) -> int:
        """Rows of an epoch, in whole batches."""
        return self.steps_per_epoch * self.batch_size

    @property
    def random_share(self) -> float:
        """Share of the examples of epoch 0 with a random second segment."""
        shards = self._shards[: self._paths.shape[1]]
        return sum(shard.get("random", 0) for shard in shards) / self.num_examples

    def _parse(self, records: tf.Tensor, step: tf.Tensor) -> dict[str, tf.Tensor]:
        tokens, lengths, labels = self._read(records)
        counts = tf.ones(self.batch_size, tf.int64)
        return self._pack(tf.cast(tokens, tf.int32), lengths, counts, labels, step)


class PairShards(MaskedShards):
    """`SentencePairs` from shards; see `MaskedShards`."""

    shape = "pairs"
    segments = 2

    @property
    def label(self) -> str | None:
        """The batch's name of the labels."""
        return LABELS[self.settings["second"]]

    def _read(self, records: tf.Tensor) -> tuple[tf.Tensor, ...]:
        features, name = {"a": _TOKENS, "b": _TOKENS}, label_feature(self.settings["second"])
        if name is not None:
            features[name] = tf.io.FixedLenFeature([], tf.int64)
        parsed = tf.io.parse_example(records, features)
        a, b = parsed["a"], parsed["b"]
        segments = tf.stack([a, b], axis=1)  # [B, 2, (tokens)]
        lengths = tf.stack([a.row_lengths(), b.row_lengths()], axis=1)
        labels = tf.zeros(self.batch_size, tf.int64) if name is None else parsed[name]
        return segments.flat_values, lengths, labels


class MaskedWindowShards(MaskedShards):
    """`MaskedWindows` from shards; see `MaskedShards`."""

    shape = "masked_windows"

    def _read(self, records: tf.Tensor) -> tuple[tf.Tensor, ...]:
        ids = tf.io.parse_example(records, {"ids": _TOKENS})["ids"]
        labels = tf.zeros(self.batch_size, tf.int64)
        return ids.flat_values, ids.row_lengths()[:, tf.newaxis], labels


class WindowShards(BatchShards):
    """`TokenWindows` from shards.

    `batch(n)` equals that of `TokenWindows` with the same seed, window and training text, for all
    epochs that are in the shards.

    Args:
        directory: the output of `tfnlp examples`.
        batch_size: B, over all devices.

    Raises:
        FileNotFoundError, ValueError, OSError: as `Shards`.
    """

    shape = "windows"

    def __init__(self, directory: str | os.PathLike, *, batch_size: int) -> None:
        super().__init__(directory)
        self.batch_size = batch_size
        self.window, self.seed = self.settings["seq_length"], self.settings["seed"]
        self.rows_per_epoch = self.windows_per_epoch = self.num_examples

    @property
    def steps_per_epoch(self) -> float:
        """Windows of an epoch divided by the batch size."""
        return self.windows_per_epoch / self.batch_size

    def _parse(self, records: tf.Tensor, step: tf.Tensor) -> dict[str, tf.Tensor]:
        shape = [self.batch_size, self.window]
        feature = tf.io.FixedLenFeature([self.window + 1], tf.int64)
        ids = tf.cast(tf.io.parse_example(records, {"ids": feature})["ids"], tf.int32)
        return {
            "input_word_ids": ids[:, :-1],
            "input_mask": tf.ones(shape, tf.int32),
            "targets": ids[:, 1:],
            "weights": tf.ones(shape, tf.float32),
        }
