"""A training step as StableHLO, the input of a TPU's compiler.

Only shapes matter to a compiler: weights and optimizer slots are made without being filled, so a
model of a billion weights takes neither time nor the host's memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfnlp.plan.chips import Topology
from tfnlp.plan.compiler import compile_target, compiler_versions, run_module
from tfnlp.plan.presets import Preset, step_settings
from tfnlp.training.engines.tensorflow import Step


class LoweredStep(NamedTuple):
    """A training step as StableHLO, and how many weights it trains."""

    text: str
    parameters: int


def lower_tensorflow(preset: Preset) -> LoweredStep:
    """Return the step of one replica under TensorFlow, lowered for a TPU.

    It updates weights and slots in place.
    """
    with _no_values():
        settings = step_settings(preset)
    step = Step(settings, replicas=1, for_tpu=True)
    batch = preset.batch()

    @tf.function(jit_compile=True, autograph=False)
    def train(number: tf.Tensor, *tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        return step.train(dict(zip(batch, tensors, strict=True)), number)

    specs = (tf.TensorSpec(shape, dtype) for shape, dtype in batch.values())
    with warnings.catch_warnings():
        # The trainer makes all gradients dense, those of large tables, too.
        warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")
        lower = train.experimental_get_compiler_ir(tf.TensorSpec((), "int64"), *specs)
        text = lower(stage="stablehlo")
    return LoweredStep(text, sum(math.prod(v.shape) for v in step.model.trainable_variables))


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


def lower_jax(
    preset: Preset, topology: Topology, shard_optimizer: bool, time_limit: float = 3600
) -> LoweredStep:
    """Return the step that `JaxEngine` runs over all devices of a topology, lowered for it.

    `preset` has the rows of one device. The sum of the gradients is in the program.
    """
    compiler_versions()
    with tempfile.TemporaryDirectory(prefix="tfnlp_plan_") as name:
        folder = pathlib.Path(name)
        rows = preset.rows * topology.devices
        request = {
            "preset": {**dataclasses.asdict(preset), "rows": rows},
            **compile_target(topology.chip, topology),
            "shard_optimizer": shard_optimizer,
            "stablehlo": str(folder / "step.mlir"),
        }
        found = run_module("tfnlp.plan.jax_lowering", request, folder, time_limit)
        return LoweredStep((folder / "step.mlir").read_text(), **found)
