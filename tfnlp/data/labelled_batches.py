"""Batches of labelled sentences, a pure function of (data, seed, step)."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.length_buckets import LengthBuckets


class LabelledBatches(LengthBuckets):
    """Sentences of similar length share a batch, as `LengthBuckets` has it.

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
        if not word_ids or len(word_ids) != len(labels):
            raise ValueError(
                f"word_ids has {len(word_ids)} sentences and labels {len(labels)}; expected 1 or "
                "more, and as many"
            )
        sizes = np.array([len(ids) for ids in word_ids])
        if not sizes.all():
            raise ValueError(f"word_ids[{int(sizes.argmin())}] is empty; leave it out")
        super().__init__(
            ("word_ids", "words"), sizes, batch_size=batch_size, lengths=lengths, seed=seed
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

    def _specs(self, length):
        targets = [self.batch_size, length] if self.tags else [self.batch_size]
        specs = {
            "word_ids": tf.TensorSpec([self.batch_size, length], tf.int32),
            "labels": tf.TensorSpec(targets, tf.int32),
            "weights": tf.TensorSpec(targets, tf.float32),
        }
        if self._layers is not None:
            shape = [self.batch_size, length, *self._layers.shape[1:]]
            specs["lm_layers"] = tf.TensorSpec(shape, tf.float32)
        return specs
