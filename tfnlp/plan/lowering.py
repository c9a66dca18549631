"""A training step as StableHLO, the input of a TPU's compiler.

Only shapes matter to a compiler: weights and optimizer slots are made without being filled, so a
model of a billion weights takes neither time nor the host's memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
import re
import tempfile
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfnlp.plan.chips import Topology
from tfnlp.plan.compiler import compile_target, compiler_versions, run_module
from tfnlp.plan.presets import Preset, step_settings
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


def lower(step: PlannedStep) -> str:
    """Return StableHLO of a `PlannedStep`: forward and backward pass, clipping, update."""
    try:
        return lower_function(step.function, step.specs)
    except (ValueError, tf.errors.OpError) as error:
        raise refused(str(error), step.model) from error


def lower_function(function: Callable, specs: Sequence[tf.TensorSpec]) -> str:
    """Return StableHLO of a function of tensors; `specs` are `tf.TensorSpec`s."""
    compiled = tf.function(function, jit_compile=True, autograph=False)
    with warnings.catch_warnings():
        # The trainer makes all gradients dense, those of large tables, too.
        warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")
        return compiled.experimental_get_compiler_ir(*specs)(stage="stablehlo")


def refused(message: str, model: keras.Model | None) -> ValueError:
    """Return the error for an operation that TensorFlow or the compiler refuses in `message`.

    TensorFlow's bridge writes `{{node a/b/Op}}`, the compiler `op_name="a/b/Op"` or `loc("...")`.
    Without a model the place is given as it stands there.
    """
    places = re.findall(r"\{\{node ([^}]+)\}\}", message)
    places += re.findall(r'op_name=\\?"([^"\\]+)', message) + re.findall(r'loc\("([^"]+)"', message)
    operations = re.findall(r"'(\w+)' OpKernel", message) + re.findall(r"\bop[: ]+(\w+)", message)
    if model is None:
        where = places[0] if places else "the training step"
    else:
        place = next((p for p in places if layer_of(p, model)), places[0] if places else None)
        layer = layer_of(place, model) if place else None
        where = layer or (f"outside the layers, at {place}" if place else "the training step")
    what = f"operation {operations[0]}" if operations else "it"
    return ValueError(f"{where}: a TPU's compiler refuses {what}: {_short(message)}")


def _short(message: str, limit: int = 300) -> str:
    message = " ".join(message.split())
    return message if len(message) <= limit else f"{message[:limit]}..."


def layer_of(place: str, model: keras.Model) -> str | None:
    """Return the layer of an operation, or None if it belongs to none.

    For `bert_1/layer_3_1/attention_1/Softmax` it is `layer_3/attention (MultiHeadAttention)`.
    Keras opens a name scope for each call of a layer, to which TensorFlow adds `_1`, `_2`, ... if
    the name is in use; operations of the gradient have the names of those they belong to. Of
    several names joined by `;` the last counts.
    """
    path, layer = [], model
    for part in place.split(";")[-1].split("/"):
        for child in layer._flatten_layers(include_self=False, recursive=False):
            if re.fullmatch(rf"{re.escape(child.name)}(_\d+)?", part):
                path.append(child.name)
                layer = child
                break
    return f"{'/'.join(path)} ({type(layer).__name__})" if path else None


class LoweredStep(NamedTuple):
    """A training step over all devices of a topology: StableHLO, and how many weights it trains."""

    text: str
    parameters: int


def lower_jax(
    preset: Preset, topology: Topology, shard_optimizer: bool, time_limit: float = 3600
) -> LoweredStep:
    """Return the step that `JaxEngine` runs, lowered for a TPU.

    `preset` has the rows of one device. With several devices the sum of the gradients is in the
    program.
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
        environment = {"KERAS_BACKEND": "jax"}
        found = run_module("tfnlp.plan.jax_lowering", request, folder, time_limit, environment)
        return LoweredStep((folder / "step.mlir").read_text(), **found)
