"""The forms in which a `Trainer` takes its task, its optimizer and its learning rate."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from tfnlp.training import optimizers
from tfnlp.training.keras_optimizer import KerasOptimizer

if TYPE_CHECKING:
    from tfnlp.objectives import Objective

Rate = Callable[[Any], Any]


def as_task(task: Any, loss: Any) -> Objective:
    """Return `task`, or the task of a Keras model and a loss."""
    from tfnlp.objectives import KerasObjective, Objective

    if isinstance(task, keras.Model) and loss is not None:
        return KerasObjective(task, loss)
    if isinstance(task, Objective) and loss is None:
        return task
    raise ValueError(
        "task must be a tfnlp.objectives.Objective without loss, or a keras.Model with loss, not "
        f"{type(task).__name__} {'without' if loss is None else 'with'} loss"
    )


def as_rate(learning_rate: Any) -> Rate | None:
    """Return a learning rate as a function of the step to a float32 scalar; None for None."""
    if learning_rate is None:
        return None
    if callable(learning_rate):
        return lambda step: ops.cast(learning_rate(step), "float32")
    if not isinstance(learning_rate, numbers.Real) or not 0 <= learning_rate < math.inf:
        raise ValueError(
            f"learning_rate={learning_rate!r} must be a finite float of at least 0, a "
            "function of the step or a Keras schedule"
        )
    return lambda step: ops.convert_to_tensor(learning_rate, "float32")


def as_optimizer(optimizer: Any, rate: Rate | None) -> optimizers.Optimizer | KerasOptimizer:
    """Return an optimizer for the trainer's step; call it in the strategy's scope.

    It is one of `tfnlp.training` or of Keras, or a name; the rate is a function of the step, or
    None.
    """
    if isinstance(optimizer, str):
        optimizer = _named(optimizer)
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return KerasOptimizer(optimizer, rate)
    if not isinstance(optimizer, optimizers.Optimizer):
        raise ValueError(
            "optimizer must be one of tfnlp.training or of Keras, or a name, not "
            f"{type(optimizer).__name__}"
        )
    if rate is None:
        raise ValueError(f"optimizer {type(optimizer).__name__} needs a learning_rate")
    return optimizer


def _named(name: str) -> optimizers.Optimizer | keras.optimizers.Optimizer:
    if name in optimizers.OPTIMIZERS:
        return optimizers.optimizer(name)
    try:
        return keras.optimizers.get(name)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"optimizer={name!r} is unknown; choose one of {', '.join(optimizers.OPTIMIZERS)}, or "
            "the name of a Keras optimizer"
        ) from error
