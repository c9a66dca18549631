"""The training steps of TensorFlow as `tfnlp pretrain` runs them, without values.

Only shapes matter to a compiler: weights and optimizer slots are made without being filled, so a
model of a billion weights takes neither time nor the host's memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfnlp.plan.presets import Preset
from tfnlp.plan.recipes import step_settings
from tfnlp.training.engines.tensorflow_step import Step


@dataclasses.dataclass(frozen=True)
class PlannedStep:
    """A training step of one replica, ready to be compiled.

    Args:
        model: The pretrainer, a Keras model.
        function: Function of the tensors that `specs` describe; it updates weights and slots in
            place.
        specs: Shapes and dtypes of its arguments.
    """

    model: keras.Model
    function: Callable[..., dict[str, tf.Tensor]]
    specs: tuple[tf.TensorSpec, ...]

    @property
    def parameters(self) -> int:
        """Number of trained weights."""
        return sum(math.prod(v.shape) for v in self.model.trainable_variables)


def planned_step(preset: Preset) -> PlannedStep:
    """Return `Step.train` of one replica as a function of tensors alone."""
    with _no_values():
        settings = step_settings(preset)
    step = Step(settings, replicas=1, for_tpu=True)
    batch = preset.batch()

    def train(number: tf.Tensor, *tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        return step.train(dict(zip(batch, tensors, strict=True)), number)

    specs = (tf.TensorSpec(shape, dtype) for shape, dtype in batch.values())
    return PlannedStep(settings.objective.model, train, (tf.TensorSpec((), "int64"), *specs))


def _no_values() -> contextlib.AbstractContextManager[None]:
    """Return a scope in which variables get memory that is not initialized."""

    def make(next_creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
        value = kwargs["initial_value"]
        if callable(value):
            with tf.Graph().as_default():  # to learn shape and dtype without computing the value
                value = value()
        if value.shape.rank:  # the value of a scalar may be needed
            kwargs["initial_value"] = tf.raw_ops.Empty(
                shape=value.shape.as_list(), dtype=value.dtype, init=False
            )
        return next_creator(**kwargs)

    return tf.variable_creator_scope(make)
