"""A training step as StableHLO, the input of a TPU's compiler."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from tfnlp.plan.steps import PlannedStep


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
