"""Updates that are made only where a condition holds, in TensorFlow, on one replica or several.

With several replicas no update can stand in a `tf.cond`, which the replicas would have to enter
together: it is made, and what it has changed gets its value back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from tfnlp.training.keras_optimizer import KerasOptimizer
from tfnlp.training.optimizer_base import Optimizer
from tfnlp.training.randomness import seed_variables


def layer_variables(model: keras.Model) -> list[tf.Variable]:
    """Return what the layers of a model may assign in a step, such as running averages."""
    seeds = {id(v) for v in seed_variables(model)}
    return [v.value for v in model.non_trainable_variables if id(v) not in seeds]


def update_if(
    condition: tf.Tensor,
    update: Callable[[], None],
    optimizer: Optimizer | KerasOptimizer,
    replicas: int,
) -> None:
    """Call `update`, which applies gradients with `optimizer`, if the condition holds.

    It is a bool scalar, the same on all replicas. `update` is called in replica context.
    """
    if replicas == 1:

        def made() -> tf.Tensor:
            update()
            return tf.constant(True)

        tf.cond(condition, made, lambda: tf.constant(False))
        return
    variables = [v.value for v in [*optimizer.variables, *optimizer.slots.values()]]
    before = [v.read_value() for v in variables]
    update()
    restore(tf.logical_not(condition), variables, before, replicas)


def restore(
    condition: tf.Tensor,
    variables: Sequence[tf.Variable],
    values: Sequence[tf.Tensor],
    replicas: int,
) -> None:
    """Assign to variables of the strategy this replica's values if the condition holds.

    It is a bool scalar, the same on all replicas.
    """
    if not variables:
        return
    if replicas == 1:

        def assigned() -> tf.Tensor:
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
            return tf.constant(True)

        tf.cond(condition, assigned, lambda: tf.constant(False))
        return
    chosen = [
        tf.where(condition, value, variable.read_value())
        for variable, value in zip(variables, values, strict=True)
    ]
    tf.distribute.get_replica_context().merge_call(assign, args=(list(variables), chosen))


def assign(
    strategy: tf.distribute.Strategy, variables: list[tf.Variable], values: list[tf.Tensor]
) -> None:
    """Assign a value to each variable on every replica; for `merge_call`."""
    for variable, value in zip(variables, values, strict=True):
        strategy.extended.update(variable, lambda v, x: v.assign(x), args=(value,), group=False)
