"""Batches that a Python function makes of their number, as a `tf.data.Dataset`."""

import abc
import functools
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf


def check_seed(seed: int) -> None:
    """Raise a ValueError for a seed that TensorFlow, whose seeds are int32, does not take."""
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed must lie in [0, 2^31); got {seed}")


def generator(seed: int, number: int) -> np.random.Generator:
    """Return the random numbers of an epoch."""
    return np.random.Generator(np.random.Philox(key=[seed, number]))


def specs_of(batch: Mapping[str, np.ndarray]) -> dict[str, tf.TensorSpec]:
    """Return the specs of batches that have the shapes and types of this one."""
    return {
        name: tf.TensorSpec(array.shape, tf.as_dtype(array.dtype)) for name, array in batch.items()
    }


def numbered_batches(
    numbers: tf.data.Dataset,
    function: Callable[[int], Mapping[str, np.ndarray]],
    specs: Mapping[str, tf.TensorSpec],
    parallel: int = 2,
) -> tf.data.Dataset:
    """Return the batches that `function` makes of int64 numbers, in their order.

    Args:
        specs: of the arrays of a batch, under the same names.
        parallel: calls of the function at once.
    """

    @tf.autograph.experimental.do_not_convert
    def element(number: tf.Tensor) -> dict[str, tf.Tensor]:
        def values(number: int) -> list[np.ndarray]:
            batch = function(int(number))
            return [batch[name] for name in specs]

        types = [spec.dtype for spec in specs.values()]
        batch = tf.numpy_function(values, [number], types, stateful=False)
        return {
            name: tf.ensure_shape(value, spec.shape)
            for (name, spec), value in zip(specs.items(), batch, strict=True)
        }

    batches = numbers.map(element, num_parallel_calls=parallel, deterministic=True)
    return batches.prefetch(2)


class Batches(abc.ABC):
    """Base of batches that are a pure function of (data, seed, step)."""

    _parallel = 2  # calls of Python at once

    @abc.abstractmethod
    def batch(self, step: int) -> dict[str, np.ndarray]:
        """Return the batch of a step, see the class."""

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset whose element n is `batch(first_step + n)`."""
        numbers = tf.data.Dataset.range(first_step, tf.int64.max)
        return numbered_batches(numbers, self.batch, self._specs(), self._parallel)

    def _evaluation_batch(self, number: int) -> dict[str, np.ndarray]:
        """Return a batch of an evaluation."""
        raise NotImplementedError

    def _evaluated(self, total: int, count: int | None) -> tf.data.Dataset:
        """Return the first `count` of the `total` batches of an evaluation; None: all."""
        numbers = tf.data.Dataset.range(total if count is None else min(count, total))
        specs = specs_of(self._evaluation_batch(0))
        return numbered_batches(numbers, self._evaluation_batch, specs, self._parallel)

    def _specs(self) -> dict[str, tf.TensorSpec]:
        return specs_of(self.batch(0))


class EpochRows(Batches):
    """Batches of the rows of epochs, one epoch after the other.

    A subclass sets `rows_per_epoch` and adds `_draw(epoch)`, the rows of an epoch in their order,
    int64 `[rows_per_epoch]`; and `_gather(rows)`, the batch of B of them.
    """

    rows_per_epoch: int

    def __init__(self, batch_size: int, seed: int) -> None:
        self.batch_size, self.seed = batch_size, seed
        self._order = functools.lru_cache(maxsize=2)(self._draw)

    @property
    def steps_per_epoch(self) -> float:
        """Rows of an epoch divided by the batch size."""
        return self.rows_per_epoch / self.batch_size

    def batch(self, step: int) -> dict[str, np.ndarray]:
        epochs, places = np.divmod(self._numbers(step), self.rows_per_epoch)
        rows = np.empty(self.batch_size, np.int64)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            rows[here] = self._order(epoch)[places[here]]
        return self._gather(rows)

    def _spread(
        self, rows: int, gather: Callable[[np.ndarray], dict], count: int | None
    ) -> tf.data.Dataset:
        """Return `gather(numbers [B])` of all `rows`, or of `count` batches taken evenly."""
        total = -(-rows // self.batch_size)
        count = total if count is None else min(count, total)
        numbers = tf.data.Dataset.from_tensor_slices(np.arange(count) * total // count)
        return numbered_batches(numbers, lambda n: gather(self._numbers(n)), self._specs())

    def _specs(self) -> dict[str, tf.TensorSpec]:
        return specs_of(self._gather(np.zeros(self.batch_size, np.int64)))

    def _numbers(self, batch: int) -> np.ndarray:
        return int(batch) * self.batch_size + np.arange(self.batch_size)


class StackedBatches(Batches):
    """Batches of which one call of Python makes several.

    A subclass adds `_batches(first, count)`, the batches first to first + count - 1, stacked on a
    new first axis.
    """

    _at_once: int  # batches of a call
    _parallel = 1

    def batch(self, step: int) -> dict[str, np.ndarray]:
        return {name: value[0] for name, value in self._batches(int(step), 1).items()}

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        count = self._at_once
        firsts = tf.data.Dataset.range(first_step, tf.int64.max, count)
        specs = specs_of(self._batches(int(first_step), count))
        several = numbered_batches(
            firsts, lambda first: self._batches(first, count), specs, self._parallel
        )
        return several.unbatch().prefetch(2)
