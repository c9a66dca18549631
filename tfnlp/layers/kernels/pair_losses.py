"""The losses of pairs of words and of negatives, with a hand-written gradient."""

from collections.abc import Callable

from keras import ops

from tfnlp.layers.kernels.backend import beside, with_gradient
from tfnlp.layers.types import Tensor


def plain_pair_losses(scores: Tensor, band: Tensor, weights: Tensor, size: int) -> Tensor:
    """Return `sum_lc softplus(-s_lc) band_lc + sum_nc softplus(s_nc) weights_c`, float32 `[B]`.

    Args:
        scores: s, float32 `[B, L + N, C]`: L = `size` rows l of centres, then rows n of negatives.
        band: float32 `[B, L, C]`, how much each pair counts.
        weights: float32 `[B, 1, C]`, how much each negative counts beside word c.
    """
    true = ops.sum(ops.softplus(-scores[:, :size]) * band, (1, 2))
    return true + ops.sum(ops.softplus(scores[:, size:]) * weights, (1, 2))


@beside(plain_pair_losses)
def pair_losses(scores: Tensor, band: Tensor, weights: Tensor, size: int) -> Tensor:
    """Return what `plain_pair_losses` returns, with a gradient for `scores` alone.

    `softplus(-s) = -log(sigmoid(s))`, and the sigmoid is all that the gradient needs. No loss of a
    pair is larger than 87, the largest that float32 gives for a sigmoid above 0.
    """

    @with_gradient
    def sums(scores: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        true, false = ops.sigmoid(scores[:, :size]), ops.sigmoid(-scores[:, size:])
        losses = ops.sum(_log(true) * -band, (1, 2))
        losses -= ops.sum(ops.sum(_log(false), 1, keepdims=True) * weights, (1, 2))

        def gradient(upstream: Tensor) -> Tensor:
            upstream = upstream[:, None, None]  # [B, 1, 1]
            return ops.concatenate(
                [(true - 1.0) * (band * upstream), (1.0 - false) * (weights * upstream)], 1
            )

        return losses, gradient

    return sums(scores)


def _log(probabilities: Tensor) -> Tensor:
    return ops.log(ops.maximum(probabilities, 1.2e-38))
