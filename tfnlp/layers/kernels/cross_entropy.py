"""Cross-entropy of many classes, with a hand-written gradient that takes one pass."""

from collections.abc import Callable

from keras import ops

from tfnlp.layers.kernels.upstream import with_gradient
from tfnlp.layers.types import Tensor


def plain_cross_entropy(z: Tensor, ids: Tensor, epsilon: float = 0.0) -> Tensor:
    """Return `-sum_v q_v log softmax(z)_v`, `q = (1 - epsilon) onehot(id) + epsilon / V`.

    Of logits z float32 `[N, V]` and int32 `[N]` it is float32 `[N]`. Epsilon smooths the labels.
    """
    size = z.shape[-1]
    q = ops.one_hot(ids, size, dtype="float32") * (1 - epsilon) + epsilon / size
    return -ops.sum(q * ops.log_softmax(z, -1), -1)


def cross_entropy_of_rows(z: Tensor, ids: Tensor, epsilon: float = 0.0) -> Tensor:
    """Return what `plain_cross_entropy` returns, `log Z - (1 - epsilon) z_id - epsilon mean(z)`.

    Its gradient is `softmax(z) - q`. For XLA: neither q nor `log softmax(z)` is written to memory,
    and the target's logit is read by its index, which automatic differentiation would turn into a
    scatter.
    """

    @with_gradient
    def losses(z: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        largest = ops.max(z, axis=-1, keepdims=True)
        log_z = largest + ops.log(ops.sum(ops.exp(z - largest), axis=-1, keepdims=True))  # [N, 1]
        of_target = ops.take_along_axis(z, ids[:, None], axis=-1)
        loss = log_z - (1 - epsilon) * of_target
        if epsilon:
            loss -= epsilon * ops.mean(z, axis=-1, keepdims=True)

        def gradient(dy: Tensor) -> Tensor:
            is_target = ops.equal(ops.arange(z.shape[-1], dtype="int32"), ids[:, None])
            q = ops.where(is_target, 1.0 - epsilon, 0.0)
            q = q + epsilon / z.shape[-1] if epsilon else q
            return (ops.exp(z - log_z) - q) * dy[:, None]

        return loss[:, 0], gradient

    return losses(z)
