"""Weights of classes in the cross-entropy, and the binary cross-entropy of labels."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from tfnlp.layers.types import Tensor


def check_weights(weights: Sequence[float], size: int, scaled: bool = True) -> np.ndarray:
    """Return the weights of classes as float32 `[K]`, if `scaled` divided by the smallest.

    A mean over weights is the same for any multiple of them. With 1 as the smallest, the sum of
    the weights of a batch is never below 1, to which the trainer raises a smaller one.
    """
    found = np.asarray(weights, np.float64)
    if found.shape != (size,) or not np.isfinite(found).all() or not (found > 0).all():
        raise ValueError(
            f"class_weights={list(weights)!r:.200} must be {size} finite numbers above 0, one a "
            "class"
        )
    return (found / found.min() if scaled else found).astype(np.float32)


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


def binary_cross_entropy(
    logits: Tensor, labels: Tensor, weights: np.ndarray | None = None, epsilon: float = 0.0
) -> Tensor:
    """Return `-1/K sum_k [c_k q_k log s(z_k) + (1 - q_k) log(1 - s(z_k))]`.

    s is the logistic function, `q = (1 - epsilon) y + epsilon / 2`. The mean of these is torch's
    `BCEWithLogitsLoss(pos_weight=c)` for labels q. As `log s(z) = -softplus(-z)` and
    `log(1 - s(z)) = -softplus(z)`, no logarithm of 0 can occur.

    Args:
        logits: z, float `[..., K]`.
        labels: y, float32 `[..., K]`, 0 or 1.
        weights: c, float32 `[K]`; None: 1.
        epsilon: of the smoothing of labels.

    Returns:
        float32 `[...]`.
    """
    z = ops.cast(logits, "float32")
    q = labels * (1 - epsilon) + epsilon / 2
    positive = q * ops.softplus(-z)
    if weights is not None:
        positive = positive * weights
    return ops.mean(positive + (1 - q) * ops.softplus(z), axis=-1)
