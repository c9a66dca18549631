"""Products and sums of dense layers, with gradients that XLA's compilers make fast."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.layers.kernels.backend import beside, by_target, forms, with_gradient

_ONES = 8  # rows or columns of a product that sums, see `ones_times`


def product(x: Tensor, y: Tensor) -> Tensor:
    """Return `x y` of `[..., M, K]` and `[..., K, N]`; on JAX's CPU faster in bfloat16.

    Both have the same batch axes. See `tfnlp.jax_forms`.
    """
    narrow = keras.backend.standardize_dtype(x.dtype) == "bfloat16"
    if keras.backend.backend() != "jax" or not narrow or x.dtype != y.dtype:
        return ops.matmul(x, y)

    @with_gradient
    def multiplied(x: Tensor, y: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
        def gradient(dz: Tensor) -> tuple[Tensor, ...]:
            dx = forms.narrow_product(dz, ops.swapaxes(y, -1, -2))
            return dx, forms.narrow_product(ops.swapaxes(x, -1, -2), dz)

        return forms.narrow_product(x, y), gradient

    return multiplied(x, y)


def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """Return `x + b` of `[..., V]` and `[V]`; on JAX and for a TPU `with_sum_of_rows`."""
    if keras.backend.backend() == "jax":
        return with_sum_of_rows(x, bias)
    return by_target(with_sum_of_rows, ops.add, x, bias)


def with_sum_of_rows(x: Tensor, bias: Tensor) -> Tensor:
    """Return `x + b`, with `sum_of_rows` as the gradient of the bias."""

    @with_gradient
    def added(x: Tensor, bias: Tensor) -> tuple[Tensor, Callable[..., tuple[Tensor, Tensor]]]:
        def gradient(dy: Tensor) -> tuple[Tensor, Tensor]:
            rows = ops.reshape(dy, (-1, dy.shape[-1]))  # [N, V]
            return dy, ops.cast(sum_of_rows(rows), bias.dtype)

        return ops.add(x, bias), gradient

    return added(x, ops.copy(bias))  # TensorFlow takes no variables there


def sum_of_rows(x: Tensor) -> Tensor:
    """Return `sum_n x_n` of `[N, V]`, `[V]`; on a TPU as a product of ones with x.

    There the sum of 16,384 rows of 768 takes 0.2 ms, and three times that as a part of another
    product, whose tiles it makes smaller; the product takes 0.05 ms. On JAX see `tfnlp.jax_forms`.
    """
    if keras.backend.backend() == "jax":
        return forms.sum_of_rows(x)
    return by_target(ones_times, lambda x: ops.sum(x, axis=0), x)


def ones_times(x: Tensor) -> Tensor:
    """Return `sum_n x_n` of `[N, V]`, `[V]`, as a product of ones with x."""
    ones = ops.ones((_ONES, ops.shape(x)[0]), x.dtype)
    # All rows are the same; of one alone the compiler would make a product with one row, or a sum.
    return ops.max(ops.matmul(ones, x), axis=0)


def plain_tied_projection(h: Tensor, table: Tensor) -> Tensor:
    """Return `h E^T`: `[N, H]` and `[V, H]` to `[N, V]`."""
    return ops.matmul(h, ops.transpose(table))


@beside(plain_tied_projection)
def tied_projection(h: Tensor, table: Tensor) -> Tensor:
    """Return what `plain_tied_projection` returns.

    The gradient of E is computed as `dy^T h`; automatic differentiation transposes `h^T dy`.
    """
    if keras.backend.backend() == "jax":
        return product(h, ops.transpose(table))  # XLA transposes nothing

    @with_gradient
    def projected(h: Tensor, table: Tensor) -> tuple[Tensor, Callable[..., tuple[Tensor, Tensor]]]:
        def gradient(dy: Tensor) -> tuple[Tensor, Tensor]:
            return ops.matmul(dy, table), ops.matmul(ops.transpose(dy), h)

        return plain_tied_projection(h, table), gradient

    return projected(h, table)


def plain_to_columns(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return `W^T x_t + b` of every position: `[B, T, C]` and `[C, F]` to `[B, F, T]`."""
    return ops.swapaxes(ops.matmul(x, kernel) + bias, 1, 2)


def plain_from_columns(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return `W^T x_t + b` of every position: `[B, F, T]` and `[F, H]` to `[B, T, H]`."""
    return ops.matmul(ops.swapaxes(x, 1, 2), kernel) + bias


@beside(plain_to_columns)
def to_columns(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return what `plain_to_columns` returns.

    Attention in blocks reads and writes arrays whose last axis are positions. Written like this, a
    TPU's compiler makes the change of axes a part of the products.
    """

    @with_gradient
    def dense(x: Tensor, kernel: Tensor, bias: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        def gradient(dy: Tensor) -> tuple[Tensor, ...]:  # [B, F, T]
            ones = ops.ones((ops.shape(x)[0], x.shape[1], _ONES), dy.dtype)
            d_bias = ops.einsum("bft,bto->fo", dy, ones)[:, 0]
            d_kernel = ops.einsum("btc,bft->cf", x, dy)
            return ops.einsum("bft,cf->btc", dy, kernel), d_kernel, ops.cast(d_bias, bias.dtype)

        return _columns(ops.transpose(kernel), x) + bias[:, None], gradient

    return dense(x, kernel, bias)


@beside(plain_from_columns)
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
        return forms.columns(matrix, x)
    return ops.einsum("fc,btc->bft", matrix, x)
