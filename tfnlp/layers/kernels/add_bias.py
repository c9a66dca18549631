"""The sum of rows and a bias, with a gradient that XLA's CPU compiler makes fast."""

from collections.abc import Callable

import keras
from keras import ops

from tfnlp.layers.types import Tensor


def plain_add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """Return `x + b`: `[..., V]` and `[V]` to `[..., V]`."""
    return ops.add(x, bias)


def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """Return what `plain_add_bias` returns.

    On JAX the gradient of the bias, a sum over rows, is always computed in float32, and in a form
    that its CPU makes fast, see `tfnlp.jax_cpu`.
    """
    if keras.backend.backend() != "jax":
        return plain_add_bias(x, bias)
    from tfnlp.jax_cpu import sum_of_rows

    @ops.custom_gradient
    def added(x: Tensor, bias: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, Tensor]]]:
        def gradient(dy: Tensor) -> tuple[Tensor, Tensor]:
            rows = ops.reshape(dy, (-1, dy.shape[-1]))  # [N, V]
            return dy, ops.cast(sum_of_rows(rows), bias.dtype)

        return plain_add_bias(x, bias), gradient

    return added(x, bias)
