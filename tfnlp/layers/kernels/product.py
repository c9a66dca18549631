"""Matrix products in bfloat16 that JAX's CPU computes with bfloat16 instructions."""

from collections.abc import Callable

import keras
from keras import ops

from tfnlp.layers.kernels.upstream import with_gradient
from tfnlp.layers.types import Tensor


def plain_product(x: Tensor, y: Tensor) -> Tensor:
    """Return `x y`: `[..., M, K]` and `[..., K, N]`, of the same batch axes, to `[..., M, N]`."""
    return ops.matmul(x, y)


def product(x: Tensor, y: Tensor) -> Tensor:
    """Return what `plain_product` returns; on JAX's CPU faster in bfloat16, see `jax_forms`."""
    narrow = keras.backend.standardize_dtype(x.dtype) == "bfloat16"
    if keras.backend.backend() != "jax" or not narrow or x.dtype != y.dtype:
        return plain_product(x, y)
    from tfnlp.jax_forms import narrow_product

    @with_gradient
    def multiplied(x: Tensor, y: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
        def gradient(dz: Tensor) -> tuple[Tensor, ...]:
            dx = narrow_product(dz, ops.swapaxes(y, -1, -2))
            return dx, narrow_product(ops.swapaxes(x, -1, -2), dz)

        return narrow_product(x, y), gradient

    return multiplied(x, y)
