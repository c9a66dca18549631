"""Batches of labelled sentences, a pure function of (data, seed, step).

Sentences of similar length share a batch: each is padded to the least of a few fixed lengths that
holds it. Every epoch goes through every sentence once; where the sentences of a length don't fill
their last batch, some of them are there again with weight 0, so that every batch has the same
size and every loss and score is exact.
"""

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf


class LabelledBatches:
    """Step n belongs to epoch `n // steps_per_epoch`; each epoch is shuffled with (seed, epoch).

    A batch is a dict with B = batch_size, T one of `lengths`:

        word_ids   int32   [B, T]           0 is padding
        labels     int32   [B, T] or [B]    tags of the words, 0 at padding; or of the sentences
        weights    float32 as `labels`      1 for real targets, else 0
        lm_layers  float32 [B, T, L+1, D]   only with `layers`; zeros at padding

    Args:
      word_ids: for each sentence the ids of its words, 1 or more.
      labels: for each sentence one int, or one for each of its words; 0 or more.
      batch_size: B, over all devices.
      lengths: increasing; a sentence is padded to the least that holds it. None: one length, that
        of the longest sentence. With one length, T is a static shape.
      layers: `[N, L+1, D]` of any float type, in memory or mapped from disk: the biLM's layers of
        the N words of all sentences, one after the other.
      seed: int in [0, 2^31).

    Raises:
      ValueError: no sentences, an empty one, one that is longer than the last of `lengths`, labels
        or layers that don't match, an argument out of its range.
    """

    def __init__(
        self,
        word_ids: Sequence[Sequence[int]],
        labels: Sequence[int] | Sequence[Sequence[int]],
        *,
        batch_size: int,
        lengths: Sequence[int] | None = None,
        layers: np.ndarray | None = None,
        seed: int = 0,
    ):
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more; got {batch_size}")
        if not 0 <= seed < 2**31:
            raise ValueError(f"seed must lie in [0, 2^31); got {seed}")
        if not word_ids or len(word_ids) != len(labels):
            raise ValueError(
                f"word_ids has {len(word_ids)} sentences and labels {len(labels)}; expected 1 or "
                "more, and as many"
            )
        sizes = np.array([len(ids) for ids in word_ids])
        if not sizes.all():
            raise ValueError(f"word_ids[{int(sizes.argmin())}] is empty; leave it out")
        self.batch_size, self.seed = batch_size, seed
        self.lengths = [int(sizes.max())] if lengths is None else [int(n) for n in lengths]
        if self.lengths[0] < 1 or any(np.diff(self.lengths) < 1):
            raise ValueError(f"lengths must be positive and increase; got {self.lengths}")
        if sizes.max() > self.lengths[-1]:
            raise ValueError(
                f"word_ids[{int(sizes.argmax())}] has {sizes.max()} words, more than the last of "
                f"lengths={self.lengths}; add a longer one or cut the sentence"
            )
        self.tags = np.ndim(labels[0]) == 1
        if self.tags:
            for number, (tags, size) in enumerate(zip(labels, sizes, strict=True)):
                if len(tags) != size:
                    raise ValueError(
                        f"labels[{number}] has {len(tags)} tags for {size} words; expected as many"
                    )
        self._ids = np.concatenate(word_ids).astype(np.int32)
        self._labels = (np.concatenate(labels) if self.tags else np.array(labels)).astype(np.int32)
        if self._ids.min() < 1 or self._labels.min() < 0:
            raise ValueError("word_ids must be 1 or more (0 is padding), labels 0 or more")
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        if layers is not None and (layers.ndim != 3 or len(layers) != len(self._ids)):
            raise ValueError(
                f"layers has shape {tuple(layers.shape)}; expected [{len(self._ids)}, L+1, D], a "
                "row for every word"
            )
        self._layers = layers
        bucket = np.searchsorted(self.lengths, sizes)  # the least length that holds it
        self._buckets = [
            (length, np.flatnonzero(bucket == b))
            for b, length in enumerate(self.lengths)
            if (bucket == b).any()
        ]
        self.steps_per_epoch = sum(-(-len(m) // batch_size) for _, m in self._buckets)
        self.plan = functools.lru_cache(maxsize=2)(self._draw)

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """The batch of a step, see the class."""
        epoch, position = divmod(int(step), self.steps_per_epoch)
        return self._gather(*self.plan(epoch)[position])

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Endless dataset whose element n equals `batch(first_step + n)`."""
        return self._as_dataset(self.batch, tf.data.Dataset.range(first_step, tf.int64.max))

    def evaluation_batches(self) -> tf.data.Dataset:
        """Every sentence once, the same batches at every call, short sentences first."""
        plan = self._cut([members for _, members in self._buckets])
        return self._as_dataset(
            lambda number: self._gather(*plan[int(number)]), tf.data.Dataset.range(len(plan))
        )

    def _draw(self, epoch):
        """The batches of an epoch in their order: tuples for `_gather`. Kept for two epochs."""
        rng = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        plan = self._cut([rng.permutation(members) for _, members in self._buckets])
        return [plan[index] for index in rng.permutation(len(plan))]

    def _cut(self, buckets):
        """Batches of each bucket: (length, sentences [B], how many of them are real)."""
        size, plan = self.batch_size, []
        for (length, _), members in zip(self._buckets, buckets, strict=True):
            for first in range(0, len(members), size):
                rows = members[np.arange(first, first + size) % len(members)]
                plan.append((length, rows, min(size, len(members) - first)))
        return plan

    def _gather(self, length, rows, real):
        size = len(rows)
        starts, ends = self._starts[rows], self._starts[rows + 1]
        batch = {"word_ids": np.zeros([size, length], np.int32)}
        shape = [size, length] if self.tags else [size]
        batch["labels"] = np.zeros(shape, np.int32)
        batch["weights"] = np.zeros(shape, np.float32)
        if self._layers is not None:
            batch["lm_layers"] = np.zeros([size, length, *self._layers.shape[1:]], np.float32)
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            batch["word_ids"][row, : end - start] = self._ids[start:end]
            if self.tags:
                batch["labels"][row, : end - start] = self._labels[start:end]
                batch["weights"][row, : end - start] = row < real
            if self._layers is not None:
                batch["lm_layers"][row, : end - start] = self._layers[start:end]
        if not self.tags:
            batch["labels"][:] = self._labels[rows]
            batch["weights"][:real] = 1.0
        return batch

    def _as_dataset(self, function, numbers):
        length = self.lengths[0] if len(self.lengths) == 1 else None
        targets = [self.batch_size, length] if self.tags else [self.batch_size]
        specs = {
            "word_ids": tf.TensorSpec([self.batch_size, length], tf.int32),
            "labels": tf.TensorSpec(targets, tf.int32),
            "weights": tf.TensorSpec(targets, tf.float32),
        }
        if self._layers is not None:
            shape = [self.batch_size, length, *self._layers.shape[1:]]
            specs["lm_layers"] = tf.TensorSpec(shape, tf.float32)

        def element(number):
            values = tf.numpy_function(
                lambda n: [function(n)[name] for name in specs],
                [number],
                [spec.dtype for spec in specs.values()],
                stateful=False,
            )
            return {
                name: tf.ensure_shape(value, spec.shape)
                for (name, spec), value in zip(specs.items(), values, strict=True)
            }

        batches = numbers.map(element, num_parallel_calls=2, deterministic=True)
        return batches.prefetch(2)
