"""Arrays as they lie in memory: without values, stored, and parts of them."""

from types import ModuleType

import keras
from keras import ops

from tfnlp.layers.kernels.target import by_target
from tfnlp.layers.types import Tensor


def empty_like(x: Tensor) -> Tensor:
    """Return an array of the shape and dtype of x without values; in TensorFlow only on a TPU.

    To fill it with zeros takes as long on a TPU as a small product. TensorFlow has an operation
    that makes an array without values, but XLA fills it.
    """
    return forms().empty_like(x)


def kept(x: Tensor) -> Tensor:
    """Return x, to be read in the backward pass; on a TPU it is stored in its own dtype.

    Of a bfloat16 sum whose next use is in float32 a TPU's compiler keeps the float32 sum, twice as
    many bytes.
    """
    return by_target(forms().barrier, lambda x: x, x)


def forms() -> ModuleType:
    """Return the module of what Keras lacks on its backend."""
    if keras.backend.backend() == "jax":
        from tfnlp import jax_forms

        return jax_forms
    from tfnlp import tensorflow_forms

    return tensorflow_forms


def entries(x: Tensor, first: Tensor, count: int) -> Tensor:
    """Return `count` entries of x from `first`."""
    return ops.slice(x, (first, *[0] * (len(x.shape) - 1)), (count, *x.shape[1:]))
