"""What both engines share: what a step is made of, and what it computes of one micro-batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.layers.kernels.backend import forms
from tfnlp.objectives import Objective
from tfnlp.training.batches import Batches
from tfnlp.training.checkpoints import model_variables
from tfnlp.training.loss_scaling import LossScaling
from tfnlp.training.randomness import seeded
from tfnlp.training.schedules import LayerRates
from tfnlp.training.workers import Workers

Tensors = dict[str, Tensor]
Totals = dict[str, Any]  # float32 scalars by name


@dataclass(frozen=True)
class StepSettings:
    """What a training step is made of; see `Trainer` for each argument."""

    objective: Objective
    optimizer: Any
    rate: Any
    clip_norm: float | None
    accumulation: int
    steps_per_call: int
    jit_compile: bool
    seed: int
    loss_scale: float
    layer_rates: LayerRates | None
    loss_scaling: LossScaling | None = None
    remat: str = "none"


class Engine:
    """What runs the steps of a `Trainer` under one backend of Keras.

    Args:
        settings: of a step; the optimizer is built.
        workers: the processes that train together.
        replicas: shares that a global batch is split into.
        count: the updates made so far, an int64 variable.
    """

    def __init__(self, settings: StepSettings, workers: Workers, replicas: int, count: Any) -> None:
        self.settings, self.workers, self.replicas = settings, workers, replicas
        self._count, self._objective = count, settings.objective
        self._slots: Mapping[str, Any] = settings.optimizer.slots
        scaling = settings.loss_scaling
        self._scaling = {} if scaling is None else scaling.variables()

    @property
    def step(self) -> int:
        """Updates made so far."""
        return int(self._count.numpy())

    def variables(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, by name."""
        parts = {
            "optimizer": self._slots,
            "state": self._objective.state,
            "loss_scaling": self._scaling,
        }
        more = {f"{part}/{name}": v for part, found in parts.items() for name, v in found.items()}
        return {**model_variables(self._objective.model), **more, "step": self._count}

    def collect(self) -> None:
        """Let every worker read all variables as it reads its own; all workers must call it.

        A call of `train` may take it back.
        """

    def batches(self, data: Batches, first_step: int) -> Iterator[Any]:
        """Return the global batches of the steps from `first_step` on, for `train`."""
        raise NotImplementedError

    def train(self, iterator: Iterator[Any], count: Any) -> Totals:
        """Make `count` updates; return the sums over them. StopIteration says that data ended."""
        raise NotImplementedError

    def evaluate(self, batch: Mapping[str, Any], state: Any) -> tuple[Totals, Any]:
        """Return the sums of a global held-out batch, and the state for the next one.

        `state` is that after the batch before, None for the first one.
        """
        raise NotImplementedError


def micro_batch_loss(
    objective: Objective,
    batch: Mapping[str, Tensor],
    counts: Tensors,
    seeds: Sequence[Tensor],
    parts: int,
    scale: float | Tensor,
    values: Sequence[tuple[keras.Variable, Tensor]] = (),
) -> tuple[Tensor, Tensors, Tensors, keras.StatelessScope]:
    """Return the loss whose gradient a micro-batch adds to a step's.

    `scale (sum_k sums_k / counts_k + penalties / parts)`, k over the losses that have targets.

    Args:
        counts: targets of each loss in the global batch.
        seeds: of the model's random layers, see `seeded`.
        parts: micro-batches of all replicas; each adds its part of the penalties.
        values: what other variables have in place of their own values.

    Returns:
        the loss, a float32 scalar; the sums of losses and metrics; the new state `[b, ...]`; and
        the scope, which has the new values of variables that layers assigned.
    """
    with seeded(objective.model, seeds, values) as scope:
        outputs = objective.outputs(batch, training=True)
        sums = _sums(objective, batch, outputs)
        penalties = scope.losses + [
            v.regularizer(v) for v in objective.model.trainable_variables if v.regularizer
        ]
        loss = sum(sums[f"loss/{name}"] / ops.where(n > 0, n, 1.0) for name, n in counts.items())
        if penalties:
            loss += sum(penalties) / parts
    return loss * scale, sums, {name: outputs[name] for name in objective.state}, scope


def compared_part(
    objective: Objective,
    batch: Mapping[str, Tensor],
    seeds: Sequence[Tensor],
    values: Sequence[tuple[keras.Variable, Tensor]] = (),
) -> Tensors:
    """Return what the losses of other micro-batches read of one, with the draws of its `seeds`."""
    with seeded(objective.model, seeds, values):
        return objective.compared(batch, objective.outputs(batch, training=True))


def comparison(objective: Objective, whole: Tensors) -> Tensors:
    """Return the entries of a batch that the comparison of all its examples adds, `[B, ...]`."""
    vectors = whole["vectors"]
    rows, slopes = forms.with_slopes(
        lambda v: objective.comparison({**whole, "vectors": v}), vectors
    )
    return {f"compared/{name}": x for name, x in {**rows, "slopes": slopes}.items()}


def _sums(objective: Objective, batch: Mapping[str, Tensor], outputs: Any) -> Tensors:
    """Return the sums of losses, `loss/NAME`, and of metrics, `metric/NAME/TARGETS`."""
    sums = {f"loss/{k}": v for k, v in objective.losses(batch, outputs).items()}
    for name, (target, value) in objective.metrics(batch, outputs).items():
        sums[f"metric/{name}/{target}"] = value
    return sums


def evaluation_sums(objective: Objective, batch: Mapping[str, Tensor]) -> tuple[Tensors, Tensors]:
    """Return the sums of a held-out batch, without dropout, and the new state."""
    outputs = objective.outputs(batch, training=False)
    return _sums(objective, batch, outputs), {name: outputs[name] for name in objective.state}


def target_counts(counts: Tensors) -> Tensors:
    """Return the counts of targets under the names that they have in a step's totals."""
    return {f"count/{name}": value for name, value in counts.items()}


def clip_scale(norm: Tensor, clip_norm: float) -> Tensor:
    """Return `clip_norm / max(norm, clip_norm)`, the factor of a gradient of that global norm."""
    return clip_norm / ops.maximum(norm, clip_norm)


def global_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return `sqrt(sum_i |g_i|^2)`, a float32 scalar."""
    return ops.sqrt(sum(ops.sum(ops.square(ops.cast(g, "float32"))) for g in gradients))
