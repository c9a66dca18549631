"""What a training step computes of one micro-batch: pure functions that both engines use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from tfnlp.layers.kernels.backend import forms
from tfnlp.layers.types import Tensor
from tfnlp.training.randomness import seeded

if TYPE_CHECKING:
    from tfnlp.objectives import Objective

Tensors = dict[str, Tensor]


def objective(
    task: Objective,
    batch: Mapping[str, Tensor],
    counts: Tensors,
    seeds: Sequence[Tensor],
    parts: int,
    scale: float | Tensor,
    values: Sequence[tuple[keras.Variable, Tensor]] = (),
) -> tuple[Tensor, Tensors, Tensors, keras.StatelessScope]:
    """Return the loss whose gradient a micro-batch adds to a step's.

    `scale (sum_k sums_k / max(1, counts_k) + penalties / parts)`, k over the losses of the task.

    Args:
        counts: targets of each loss in the global batch.
        seeds: of the model's random layers, see `seeded`.
        parts: micro-batches of all replicas; each adds its part of the penalties.
        values: what other variables have in place of their own values.

    Returns:
        the loss, a float32 scalar; the sums of losses and metrics; the new state `[b, ...]`; and
        the scope, which has the new values of variables that layers assigned.
    """
    with seeded(task.model, seeds, values) as scope:
        outputs = task.outputs(batch, training=True)
        sums = task_sums(task, batch, outputs)
        penalties = scope.losses + [
            v.regularizer(v) for v in task.model.trainable_variables if v.regularizer
        ]
        loss = sum(sums[f"loss/{name}"] / ops.maximum(n, 1.0) for name, n in counts.items())
        if penalties:
            loss += sum(penalties) / parts
    return loss * scale, sums, {name: outputs[name] for name in task.state}, scope


def compared_part(
    task: Objective,
    batch: Mapping[str, Tensor],
    seeds: Sequence[Tensor],
    values: Sequence[tuple[keras.Variable, Tensor]] = (),
) -> Tensors:
    """Return what the losses of other micro-batches read of one, with the draws of its `seeds`."""
    with seeded(task.model, seeds, values):
        return task.compared(batch, task.outputs(batch, training=True))


def comparison(task: Objective, whole: Tensors) -> Tensors:
    """Return the entries of a batch that the comparison of all its examples adds, `[B, ...]`."""
    vectors = whole["vectors"]
    rows, slopes = forms.with_slopes(lambda v: task.comparison({**whole, "vectors": v}), vectors)
    return {f"compared/{name}": x for name, x in {**rows, "slopes": slopes}.items()}


def task_sums(task: Objective, batch: Mapping[str, Tensor], outputs: Any) -> Tensors:
    """Return the sums of losses, `loss/NAME`, and of metrics, `metric/NAME/TARGETS`."""
    sums = {f"loss/{k}": v for k, v in task.losses(batch, outputs).items()}
    for name, (target, value) in task.metrics(batch, outputs).items():
        sums[f"metric/{name}/{target}"] = value
    return sums


def evaluation_sums(task: Objective, batch: Mapping[str, Tensor]) -> tuple[Tensors, Tensors]:
    """Return the sums of a held-out batch, without dropout, and the new state."""
    outputs = task.outputs(batch, training=False)
    return task_sums(task, batch, outputs), {name: outputs[name] for name in task.state}


def target_counts(counts: Tensors) -> Tensors:
    """Return the counts of targets under the names that they have in a step's totals."""
    return {f"count/{name}": value for name, value in counts.items()}


def clip_scale(norm: Tensor, clip_norm: float) -> Tensor:
    """Return `clip_norm / max(norm, clip_norm)`, the factor of a gradient of that global norm."""
    return clip_norm / ops.maximum(norm, clip_norm)


def global_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return `sqrt(sum_i |g_i|^2)`, a float32 scalar."""
    return ops.sqrt(sum(ops.sum(ops.square(ops.cast(g, "float32"))) for g in gradients))


def means(totals: Mapping[str, float]) -> dict[str, float]:
    """Return means from summed totals: `loss`, `NAME_loss`, metrics, `learning_rate`, ..."""
    logs, loss = {}, 0.0
    for key, value in totals.items():
        kind, _, rest = key.partition("/")
        if kind == "loss":
            logs[f"{rest}_loss"] = value / max(1.0, totals[f"count/{rest}"])
            loss += logs[f"{rest}_loss"]
        elif kind == "metric":
            name, _, target = rest.partition("/")
            logs[name] = value / max(1.0, totals[f"count/{target}"])
        elif kind == "sum":
            logs[rest] = value / totals["steps"]
    return {"loss": loss, **logs}
