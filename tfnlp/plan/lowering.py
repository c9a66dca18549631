"""A training step as StableHLO, the text that a TPU's compiler reads."""

import re
import warnings

import tensorflow as tf

from tfnlp.plan.layers import layer_of


class Refused(ValueError):
    """The compiler has no way to do what the step asks for."""


def lower(step):
    """StableHLO of a `PlannedStep`: forward and backward pass, clipping, update.

    Raises:
        Refused: for an operation that XLA lacks, naming it and the layer that asked for it.
    """
    try:
        return lower_function(step.function, step.specs)
    except (ValueError, tf.errors.OpError) as error:
        raise refused(str(error), step.model) from error


def lower_function(function, specs):
    """StableHLO of a function of tensors; `specs` are `tf.TensorSpec`s."""
    compiled = tf.function(function, jit_compile=True, autograph=False)
    with warnings.catch_warnings():
        # The trainer wants dense gradients, also of large tables; that is part of the plan.
        warnings.filterwarnings("ignore", "Converting sparse IndexedSlices")
        return compiled.experimental_get_compiler_ir(*specs)(stage="stablehlo")


def refused(message, model):
    """`Refused` with what `message`, from TensorFlow or the TPU's compiler, says of the place.

    TensorFlow's bridge writes `{{node a/b/Op}}`, the compiler `op_name="a/b/Op"` or `loc("...")`.
    """
    places = re.findall(r"\{\{node ([^}]+)\}\}", message)
    places += re.findall(r'op_name=\\?"([^"\\]+)', message) + re.findall(r'loc\("([^"]+)"', message)
    operations = re.findall(r"'(\w+)' OpKernel", message) + re.findall(r"\bop[: ]+(\w+)", message)
    place = next((p for p in places if layer_of(p, model)), places[0] if places else None)
    layer = layer_of(place, model) if place else None
    where = layer or (f"outside the layers, at {place}" if place else "the training step")
    what = f"operation {operations[0]}" if operations else "it"
    return Refused(f"{where}: a TPU's compiler refuses {what}: {_short(message)}")


def _short(message, limit=300):
    message = " ".join(message.split())
    return message if len(message) <= limit else f"{message[:limit]}..."
