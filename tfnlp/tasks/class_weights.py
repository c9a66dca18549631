"""Weights of classes in the cross-entropy."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from tfnlp.layers.types import Tensor


def check_weights(weights: Sequence[float], size: int) -> np.ndarray:
    """Return the weights of classes as float32 `[K]`, divided by the smallest.

    A mean over weights is the same for any multiple of them. With 1 as the smallest, the sum of
    the weights of a batch is never below 1, to which the trainer raises a smaller one.

    Raises:
        ValueError: unless there is one above 0 and below infinity for each class.
    """
    found = np.asarray(weights, np.float64)
    if found.shape != (size,) or not np.isfinite(found).all() or not (found > 0).all():
        raise ValueError(
            f"class_weights={list(weights)!r:.200} must be {size} finite numbers above 0, one a "
            "class"
        )
    return (found / found.min()).astype(np.float32)


def weights_of(labels: Tensor, weights: np.ndarray) -> Tensor:
    """Return the weight of each label's class: float32 `[...]` of int32 `[...]`."""
    return ops.take(ops.convert_to_tensor(weights), labels, axis=0)


def weighted_cross_entropy(
    logits: Tensor, labels: Tensor, weights: np.ndarray, epsilon: float = 0.0
) -> Tensor:
    """Return `-sum_k c_k q_k log softmax(z)_k`, `q = (1 - epsilon) onehot(label) + epsilon / K`.

    The sum of these divided by the sum of `c_label` is torch's
    `CrossEntropyLoss(weight=c, label_smoothing=epsilon)`.

    Args:
        logits: z, float `[..., K]`.
        labels: int32 `[...]`.
        weights: c, float32 `[K]`.
        epsilon: of the smoothing of labels.

    Returns:
        float32 `[...]`.
    """
    size = logits.shape[-1]
    q = ops.one_hot(labels, size, dtype="float32") * (1 - epsilon) + epsilon / size
    return -ops.sum(q * weights * ops.log_softmax(ops.cast(logits, "float32"), -1), -1)
