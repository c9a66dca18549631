"""Arrays that a loop fills, without values before."""

import keras

from tfnlp.layers.types import Tensor


def empty_like(x: Tensor) -> Tensor:
    """Return an array of the shape and dtype of x without values; in TensorFlow only on a TPU.

    To fill it with zeros takes as long on a TPU as a small product. TensorFlow has an operation
    that makes an array without values, but XLA fills it.
    """
    if keras.backend.backend() == "jax":
        from tfnlp.jax_forms import empty_like

        return empty_like(x)
    from tfnlp.tensorflow_forms import empty_like

    return empty_like(x)
