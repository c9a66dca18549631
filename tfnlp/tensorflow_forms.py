"""What `layers` use with TensorFlow alone.

`layers` imports this module in functions, as `jax_forms`, once it knows Keras's backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

try:
    from tensorflow.compiler.tf2xla.ops.gen_xla_ops import (
        xla_custom_call_v2,
        xla_optimization_barrier,
    )
except ImportError:  # a version without them: a step takes a little longer
    xla_custom_call_v2 = xla_optimization_barrier = None


def with_slopes(
    function: Callable[[tf.Tensor], dict[str, tf.Tensor]], x: tf.Tensor
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Return `function(x)`, a dict, and the gradient of the sum of its `loss`."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        found = function(x)
    return found, tape.gradient(found["loss"], x)


def rematerialized(
    function: Callable[..., tf.Tensor | tuple[tf.Tensor, ...]],
    arrays: Sequence[tf.Tensor | tf.Variable],
) -> Any:
    """Return `function(*arrays)`, of which a gradient keeps `arrays` alone.

    `tf.recompute_grad` takes no integers and booleans. The function has no variables, and what it
    draws follows from its arguments, tensors and variables of any dtype.
    """
    arrays = [tf.convert_to_tensor(x) for x in arrays]
    floats = [i for i, x in enumerate(arrays) if x.dtype.is_floating]

    @tf.custom_gradient
    def computed(*arrays: tf.Tensor) -> tuple[Any, Callable[..., list[tf.Tensor | None]]]:
        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor | None]:
            again = _after(upstream[0], arrays)
            sources = [again[i] for i in floats]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(sources)
                outputs = function(*again)
            upstream = upstream if isinstance(outputs, tuple) else upstream[0]
            gradients = [None] * len(arrays)
            for i, found in zip(floats, tape.gradient(outputs, sources, upstream), strict=True):
                # Rows of a table, which is an array here, become dense.
                gradients[i] = None if found is None else tf.convert_to_tensor(found)
            return gradients

        return function(*arrays), gradient

    return computed(*arrays)


def _after(last: tf.Tensor, arrays: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return equal arrays that a compiler takes for others, which depend on `last`.

    Otherwise it finds that the same is computed twice, and keeps the first results.
    """
    if tf.executing_eagerly():
        return [tf.identity(x) for x in arrays]
    first = tf.reshape(last, [-1])[:1]
    zero = tf.reshape(tf.where(tf.equal(first, first), 0.0, math.nan), ())  # no compiler knows it
    numbers = [x.dtype.is_floating or x.dtype.is_integer for x in arrays]
    return [x + tf.cast(zero, x.dtype) if n else x for x, n in zip(arrays, numbers, strict=True)]


def empty_like(x: tf.Tensor) -> tf.Tensor:
    """Return an array of the shape and dtype of x without values, in a program for a TPU.

    `AllocateBuffer` is what `jax.lax.empty` asks the compiler for.
    """
    if xla_custom_call_v2 is None:
        return tf.zeros(x.shape, x.dtype)
    (made,) = xla_custom_call_v2(
        operands=[],
        call_target_name="AllocateBuffer",
        backend_config="",
        has_side_effect=False,
        result_dtypes=[x.dtype],
        result_shapes=[x.shape],
    )
    return made


def barrier(x: tf.Tensor) -> tf.Tensor:
    """Return x, as an array that XLA's compiler does not compute again or in another dtype."""
    if xla_optimization_barrier is None or tf.executing_eagerly():
        return x
    return xla_optimization_barrier([x])[0]
