"""Normalization of rows, with a hand-written gradient."""

from collections.abc import Callable

from keras import ops

from tfnlp.layers.kernels.add_bias import sum_of_rows
from tfnlp.layers.kernels.storage import forms, kept
from tfnlp.layers.kernels.target import by_target
from tfnlp.layers.kernels.upstream import with_gradient
from tfnlp.layers.types import Tensor


def plain_scaled_norm(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    """Return `gamma * (x - mean) / sqrt(variance + epsilon)` of rows `[R, H]`, float32."""
    x = ops.cast(x, "float32")
    centred = x - ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
    return gamma * centred / ops.sqrt(variance + epsilon)


def scaled_norm(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    """Return what `plain_scaled_norm` returns, with a gradient that takes fewer operations.

    Automatic differentiation takes half as many operations again. With
    `n = (x - mean) / sqrt(variance + epsilon)` and `g = dy gamma`:
    `dx = (g - mean(g) - n mean(g n)) / sqrt(variance + epsilon)` and `dgamma = sum_r dy n`.
    """

    @with_gradient
    def scaled(x: Tensor, gamma: Tensor) -> tuple[Tensor, Callable[..., tuple[Tensor, Tensor]]]:
        x32 = ops.cast(x, "float32")
        mean = ops.mean(x32, axis=-1, keepdims=True)
        centred = x32 - mean
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        scale = ops.rsqrt(variance + epsilon)  # [R, 1]
        normal, input_ = centred * scale, kept(x)

        def gradient(dy: Tensor) -> tuple[Tensor, Tensor]:
            # A TPU keeps x, of which an element has half as many bytes in bfloat16; so does a GPU,
            # but would compute the mean again for each element of `dy n`.
            arrays = input_, mean, scale, normal
            n = by_target(_normal, lambda *given: given[-1], *arrays, on_gpu=_normal_of_stored)
            g = dy * gamma
            mean_g = ops.mean(g, axis=-1, keepdims=True)
            mean_gn = ops.mean(g * n, axis=-1, keepdims=True)
            dx = (g - mean_g - n * mean_gn) * scale
            return ops.cast(dx, x.dtype), sum_of_rows(dy * n)

        return normal * gamma, gradient

    return scaled(x, gamma)


def _normal(x: Tensor, mean: Tensor, scale: Tensor, _: Tensor) -> Tensor:
    return (ops.cast(x, "float32") - mean) * scale


def _normal_of_stored(x: Tensor, mean: Tensor, scale: Tensor, _: Tensor) -> Tensor:
    return _normal(x, forms().barrier(mean), forms().barrier(scale), _)
