"""Array functions that `layers` use with TensorFlow alone, imported in functions as `jax_forms`."""

import tensorflow as tf

try:
    from tensorflow.compiler.tf2xla.ops.gen_xla_ops import xla_custom_call_v2
except ImportError:  # a version without it: zeros take a little longer
    xla_custom_call_v2 = None


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
