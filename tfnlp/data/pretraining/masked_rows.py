"""Masked batches of rows that are the same in all epochs, in an order drawn for each."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfnlp.data.pretraining.token_stream import window_keys


class MaskedRows:
    """Batches that are a pure function of (rows, seed, step).

    Step n belongs to epoch `n // steps_per_epoch`. A subclass adds `_values(numbers)`, what the
    rows int `[B]` hold, as arrays of `specs`.

    Args:
        num_examples: rows of an epoch.
        batch_size: B, over all devices.
        seed: int in [0, 2^31).
        specs: `tf.TensorSpec`s.
        make: function of the values and the step, int64, to the batch, in the graph.
    """

    def __init__(
        self,
        num_examples: int,
        batch_size: int,
        seed: int,
        specs: Sequence[tf.TensorSpec],
        make: Callable[..., dict[str, tf.Tensor]],
    ) -> None:
        self.num_examples, self.batch_size, self.seed = num_examples, batch_size, seed
        self._specs = list(specs)
        self._order = functools.lru_cache(maxsize=2)(self._draw)
        self._made = tf.function(make, [*specs, tf.TensorSpec([], tf.int64)], autograph=False)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in an epoch; 1 for a text smaller than a batch, whose rows repeat."""
        return max(1, self.num_examples // self.batch_size)

    def batch(self, step: int) -> dict[str, tf.Tensor]:
        """Return the batch of a step, see the class."""
        with tf.device("CPU:0"):  # the device of tf.data
            return self._made(*self._read(step), step)

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset whose element n equals `batch(first_step + n)`.

        Shapes are static.
        """

        @tf.autograph.experimental.do_not_convert
        def element(step: tf.Tensor) -> dict[str, tf.Tensor]:
            values = tf.numpy_function(self._read, [step], [s.dtype for s in self._specs], False)
            shaped = zip(values, self._specs, strict=True)
            return self._made(*(tf.ensure_shape(x, spec.shape) for x, spec in shaped), step)

        steps = tf.data.Dataset.range(first_step, tf.int64.max)
        batches = steps.map(element, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return batches.prefetch(tf.data.AUTOTUNE)

    def evaluation_batches(self, max_batches: int) -> tf.data.Dataset:
        """Return the first `max_batches` batches of epoch 0, or all; the same at every call."""
        if max_batches < 1:
            raise ValueError(f"max_batches must be 1 or more; got {max_batches}")
        return self.dataset().take(min(max_batches, self.steps_per_epoch))

    def _read(self, step: int) -> tuple[np.ndarray, ...]:
        epoch, position = divmod(int(step), self.steps_per_epoch)
        places = position * self.batch_size + np.arange(self.batch_size)
        return self._values(self._order(epoch)[places % self.num_examples])

    def _draw(self, epoch: int) -> np.ndarray:
        """Return the numbers of the rows in the order of an epoch."""
        keys = window_keys(0, self.num_examples, self.seed, epoch)
        return np.argsort(keys, kind="stable")
