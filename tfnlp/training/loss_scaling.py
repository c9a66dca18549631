"""Dynamic scaling of the loss, which keeps gradients inside the range of float16.

The smallest float16 is 6e-8, the largest 65504. Micikevicius et al. 2018 ("Mixed Precision
Training"), section 3.2: the loss is multiplied by S before its gradient is taken, so that small
gradients do not become zero, and the gradient of the weights is divided by S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Tensor


@dataclass(frozen=True)
class LossScaling:
    """The factor S of the loss: what it is at first, and how it follows the gradients.

    Gradients are divided by S after they are summed over replicas and micro-batches. If their norm
    is not finite, the update is skipped: weights, slots and state stay as they are, and S is
    halved. After `interval` updates without a skipped one between them S is doubled. A skipped
    update whose losses are not finite is left out of the means.

    Args:
        initial: S of the first step. This and the other two are powers of two, so that the
            multiplication and the division cancel without rounding.
        interval: updates in a row after which S is doubled.
        least: the smallest S; many updates in a row that are not finite with it are an error.
        most: the largest S.

    Raises:
        ValueError: for factors that are no powers of two or in another order, or an interval below
            1.
    """

    initial: float = 2.0**15
    interval: int = 2000
    least: float = 1.0
    most: float = 2.0**24

    def __post_init__(self) -> None:
        for name in ("initial", "least", "most"):
            value = getattr(self, name)
            if not 0 < value < math.inf or math.frexp(value)[0] != 0.5:
                raise ValueError(f"{name}={value} must be a power of two, as 32768.0 is")
        if not self.least <= self.initial <= self.most:
            raise ValueError(
                f"initial={self.initial} must be from least={self.least} to most={self.most}"
            )
        if self.interval < 1:
            raise ValueError(f"interval={self.interval} must be at least 1")

    def variables(self) -> dict[str, keras.Variable]:
        """Return new variables by name, the state before the first step.

        `scale` is S, `finite` the updates since it changed or one was skipped, and `skipped` the
        updates skipped in all.
        """
        first = {"scale": self.initial, "finite": 0, "skipped": 0}
        return {
            name: keras.Variable(
                keras.initializers.Constant(value),
                shape=(),
                dtype="float32" if name == "scale" else "int32",
                trainable=False,
                name=name,
            )
            for name, value in first.items()
        }

    def following(self, state: dict[str, Tensor], finite: Tensor) -> dict[str, Tensor]:
        """Return the state after a step, from that before it; a pure function.

        `finite`, a bool scalar, says whether its gradients were finite.
        """
        scale, updates = state["scale"], state["finite"] + 1
        grows = updates >= self.interval
        grown = ops.where(grows, ops.minimum(scale * 2, self.most), scale)
        return {
            "scale": ops.where(finite, grown, ops.maximum(scale / 2, self.least)),
            "finite": ops.where(ops.logical_and(finite, ops.logical_not(grows)), updates, 0),
            "skipped": state["skipped"] + ops.cast(ops.logical_not(finite), "int32"),
        }

    def totals(
        self, sums: dict[str, Tensor], state: dict[str, Tensor], finite: Tensor, norm: Tensor
    ) -> dict[str, Tensor]:
        """Return a step's totals: its sums, norms of applied gradients, S, skipped updates.

        The sums of losses and metrics and their counts are 0 where the update was skipped and a
        loss is not finite. `failed` is not 0 where the gradients were not finite although S was
        the least.
        """
        failed = ops.logical_and(ops.logical_not(finite), state["scale"] <= self.least)
        applied = ops.cast(finite, "float32")
        losses = [ops.isfinite(x) for name, x in sums.items() if name.startswith("loss/")]
        counts = ops.logical_or(finite, ops.all(ops.stack(losses)))
        return {
            **{name: ops.where(counts, x, 0.0) for name, x in sums.items()},
            "metric/gradient_norm/updates": ops.where(finite, norm, 0.0),
            "count/updates": applied,
            "sum/loss_scale": state["scale"],
            "sum/skipped": 1.0 - applied,
            "failed": ops.cast(failed, "float32"),
        }


def matmul_dtype(model: keras.Model) -> str:
    """Return the type of most matrix products of a model: a low precision if a layer has one."""
    dtypes, layers = set(), [model]
    while layers:
        layer = layers.pop()
        layers.extend(getattr(layer, "layers", ()))
        dtypes.add(layer.compute_dtype)
    return next((dtype for dtype in ("bfloat16", "float16") if dtype in dtypes), "float32")


def as_loss_scaling(loss_scaling: Any, dtype: str) -> LossScaling | None:
    """Return the scaling of a `Trainer`, of which None is True for float16, False for others.

    `dtype` is that of most matrix products of the model.
    """
    if isinstance(loss_scaling, LossScaling):
        return loss_scaling
    if loss_scaling is None:
        loss_scaling = dtype == "float16"
    if not isinstance(loss_scaling, bool):
        raise ValueError(
            f"loss_scaling={loss_scaling!r} must be a LossScaling, True, False or None; a fixed "
            "factor of the loss is loss_scale"
        )
    return LossScaling() if loss_scaling else None
