"""The training steps of TensorFlow as `tfnlp pretrain` runs them, without values.

Only shapes matter to a compiler: weights and optimizer slots are made without being filled, so a
model of a billion weights takes neither time nor the host's memory.
"""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.plan.recipes import recipe_optimizer, step_settings
from tfnlp.training.engines.tensorflow import make_step


@dataclasses.dataclass(frozen=True)
class PlannedStep:
    """A training step of one replica, ready to be compiled.

    Args:
        model: The pretrainer, a Keras model.
        function: Function of the tensors that `specs` describe; it updates weights and slots in
            place.
        specs: Shapes and dtypes of its arguments.
        optimizer: The built optimizer.
        state: Other tensors or variables that stay on the device.
    """

    model: keras.Model
    function: Callable[..., dict[str, tf.Tensor]]
    specs: tuple[tf.TensorSpec, ...]
    optimizer: Any
    state: tuple[Any, ...]

    @property
    def parameters(self) -> int:
        """Number of trained weights."""
        return sum(int(np.prod(v.shape)) for v in self.model.trainable_variables)

    @property
    def gradient_bytes(self) -> int:
        """Bytes of the gradients that the replicas sum in a step."""
        return sum(_bytes(v) for v in self.model.trainable_variables)

    @property
    def argument_bytes(self) -> dict[str, int]:
        """Bytes of the step's arguments by kind, without the padding of tiles."""
        return {
            "weights": sum(_bytes(v) for v in self.model.weights),
            "slots": sum(_bytes(v) for v in self.optimizer.slots.values()),
            "state": sum(_bytes(v) for v in self.state),
            "batch": sum(_bytes(s) for s in self.specs),
        }


def _bytes(x: Any) -> int:
    return int(np.prod(x.shape)) * tf.as_dtype(x.dtype).size


def planned_step(preset: Any, arguments: Any) -> PlannedStep:
    """Return `Step.train` of one replica as a function of tensors alone.

    Args:
        preset: A `tfnlp.plan.presets.Preset`.
        arguments: Its `PlanArguments` for one batch.
    """
    plan = preset.plan
    with _no_values():
        task = preset.task(arguments)
    batch = {
        name: tf.TensorSpec(shape, dtype)
        for name, (shape, dtype) in plan.batch(preset.sizes, arguments).items()
    }
    with _no_values():
        built = recipe_optimizer(preset, task.model)
    settings = step_settings(preset, arguments, task, built)
    step = make_step(settings, replicas=1, for_tpu=True)
    names = list(batch)

    def train(number: tf.Tensor, *tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        return step.train(dict(zip(names, tensors, strict=True)), number)

    specs = (tf.TensorSpec((), "int64"), *batch.values())
    return PlannedStep(task.model, train, specs, built, tuple(plan.state(task)))


def _no_values() -> contextlib.AbstractContextManager[None]:
    """Return a scope in which variables get memory that is not initialized."""

    def make(next_creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
        value = kwargs["initial_value"]
        if callable(value):
            with (
                tf.Graph().as_default()
            ):  # to learn the shape and dtype without computing the value
                value = value()
        if value.shape.rank:  # the value of a scalar may be needed
            kwargs["initial_value"] = tf.raw_ops.Empty(
                shape=value.shape.as_list(), dtype=value.dtype, init=False
            )
        return next_creator(**kwargs)

    return tf.variable_creator_scope(make)
