"""Batches that a Python function makes of their number, as a `tf.data.Dataset`."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf


def numbered_batches(
    numbers: tf.data.Dataset,
    function: Callable[[int], Mapping[str, np.ndarray]],
    specs: Mapping[str, tf.TensorSpec],
) -> tf.data.Dataset:
    """Return the batches of numbers, in their order.

    Args:
        numbers: dataset of int64 scalars.
        function: of a number to a dict of arrays.
        specs: what the arrays are, under the same names.
    """

    @tf.autograph.experimental.do_not_convert
    def element(number: tf.Tensor) -> dict[str, tf.Tensor]:
        def values(number: int) -> list[np.ndarray]:
            found = function(number)
            return [found[name] for name in specs]

        types = [spec.dtype for spec in specs.values()]
        found = tf.numpy_function(values, [number], types, stateful=False)
        return {
            name: tf.ensure_shape(value, spec.shape)
            for (name, spec), value in zip(specs.items(), found, strict=True)
        }

    batches = numbers.map(element, num_parallel_calls=2, deterministic=True)
    return batches.prefetch(2)
