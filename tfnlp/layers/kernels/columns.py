"""Dense layers to and from `[B, F, T]`, where positions are the last axis.

The attention of a block reads and writes that form. Written like this, a TPU's compiler makes the
change of axes a part of the products; the gradient of a bias is a product with ones, see
`add_bias.py`.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tfnlp.layers.kernels.upstream import with_gradient
from tfnlp.layers.types import Tensor

_ONES = 8  # columns of the product that sums, see `ones_times`


def plain_to_columns(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return `W^T x_t + b` of every position: `[B, T, C]` and `[C, F]` to `[B, F, T]`."""
    return ops.swapaxes(ops.matmul(x, kernel) + bias, 1, 2)


def plain_from_columns(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return `W^T x_t + b` of every position: `[B, F, T]` and `[F, H]` to `[B, T, H]`."""
    return ops.matmul(ops.swapaxes(x, 1, 2), kernel) + bias


def to_columns(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return what `plain_to_columns` returns."""

    @with_gradient
    def dense(x: Tensor, kernel: Tensor, bias: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        def gradient(dy: Tensor) -> tuple[Tensor, ...]:  # [B, F, T]
            ones = ops.ones((ops.shape(x)[0], x.shape[1], _ONES), dy.dtype)
            d_bias = ops.einsum("bft,bto->fo", dy, ones)[:, 0]
            d_kernel = ops.einsum("btc,bft->cf", x, dy)
            return ops.einsum("bft,cf->btc", dy, kernel), d_kernel, ops.cast(d_bias, bias.dtype)

        return _columns(ops.transpose(kernel), x) + bias[:, None], gradient

    return dense(x, kernel, bias)


def from_columns(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return what `plain_from_columns` returns."""

    @with_gradient
    def dense(x: Tensor, kernel: Tensor, bias: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        def gradient(dy: Tensor) -> tuple[Tensor, ...]:  # [B, T, H]
            ones = ops.ones((ops.shape(dy)[0], dy.shape[1], _ONES), dy.dtype)
            d_bias = ops.einsum("bto,bth->oh", ones, dy)[0]
            d_kernel = ops.einsum("bft,bth->fh", x, dy)
            return _columns(kernel, dy), d_kernel, ops.cast(d_bias, bias.dtype)

        return ops.einsum("bft,fh->bth", x, kernel) + bias, gradient

    return dense(x, kernel, bias)


def _columns(matrix: Tensor, x: Tensor) -> Tensor:
    """Return `M x_t` of every position: `[F, C]` and `[B, T, C]` to `[B, F, T]`."""
    if keras.backend.backend() == "jax":
        from tfnlp.jax_forms import columns

        return columns(matrix, x)
    return ops.einsum("fc,btc->bft", matrix, x)
