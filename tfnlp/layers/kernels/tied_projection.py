"""The product with a transposed table, with a gradient that transposes less."""

from collections.abc import Callable

import keras
from keras import ops

from tfnlp.layers.kernels.product import product
from tfnlp.layers.kernels.upstream import with_gradient
from tfnlp.layers.types import Tensor


def plain_tied_projection(h: Tensor, table: Tensor) -> Tensor:
    """Return `h E^T`: `[N, H]` and `[V, H]` to `[N, V]`."""
    return ops.matmul(h, ops.transpose(table))


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
