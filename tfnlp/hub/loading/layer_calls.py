"""Arguments, outputs and dtypes of the function that a `tfnlp.hub.Layer` calls."""

import inspect
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.loading.traces import Trace, described


def callable_of(module: Any, label: str, signature: str | None) -> Callable:
    """Return what the layer calls: the module, or one of its signatures."""
    if signature is None:
        if callable(module):
            return module
        names = ", ".join(getattr(module, "signatures", ())) or "none"
        raise ValueError(f"SavedModel {label} is not callable; give one of its signatures: {names}")
    signatures = getattr(module, "signatures", {})
    if signature not in signatures:
        names = ", ".join(signatures) or "none"
        raise ValueError(f"signature={signature!r} is not one of those of {label}: {names}")
    return signatures[signature]


def argument_names(function: Callable, traces: list[Trace]) -> set[str]:
    """Return the names of the arguments besides the inputs; `mask` only if it was traced."""
    if traces:
        names = {name for trace in traces for name in trace.arguments}
        masked = any(isinstance(t.arguments.get("mask"), tf.TypeSpec) for t in traces)
        return names if masked else names - {"mask"}
    call = function if hasattr(function, "python_function") else function.__call__
    return set(inspect.signature(getattr(call, "python_function", call)).parameters)


def output_keys(signature: Callable) -> str:
    """Return the names of a signature's outputs in one line."""
    return ", ".join(sorted(signature.structured_outputs))


def reshaped(outputs: Any, shapes: Any, inputs: Any, apply: Callable[[Any, tuple], Any]) -> Any:
    """Return `apply(output, shape)` for each output; the batch size is that of the inputs."""
    if isinstance(outputs, dict):
        return {k: reshaped(x, shapes[k], inputs, apply) for k, x in outputs.items()}
    if isinstance(outputs, list | tuple):
        pairs = zip(outputs, shapes, strict=True)
        return [reshaped(x, shape, inputs, apply) for x, shape in pairs]
    batch = tf.nest.flatten(inputs)[0].shape[0]
    if not tf.TensorShape([batch, *shapes]).is_compatible_with(tf.TensorShape(outputs.shape)):
        raise ValueError(f"output_shape={shapes!r}, but the module returns {described(outputs)}")
    return apply(outputs, (batch, *shapes))


def dtype_policy(traces: list[Trace], dtype: Any) -> Any:
    """Return the dtype policy of the layer.

    It is the dtype of the input if that is a single tensor and no float: Sequential models make
    their input of that dtype. Else it is the `dtype` that was given.
    """
    taken = {getattr(trace.inputs, "dtype", None) for trace in traces}
    if len(taken) == 1 and None not in taken and not next(iter(taken)).is_floating:
        return taken.pop().name
    try:  # `dtype=tf.string` is no policy, but TF-Hub's tutorials give it
        return dtype if tf.as_dtype(dtype).is_floating else None
    except TypeError:
        return dtype


def symbol(spec: tf.TypeSpec, label: str) -> keras.KerasTensor:
    """Return the symbolic tensor of a spec.

    Raises:
        ValueError: if the rank is unknown; `label` names the module.
    """
    if spec.shape.rank is None:
        raise ValueError(f"{label} does not state the shape of its output; give output_shape")
    ragged = {}
    if isinstance(spec, tf.RaggedTensorSpec):
        splits = spec.row_splits_dtype.name
        ragged = dict(ragged=True, ragged_rank=spec.ragged_rank, row_splits_dtype=splits)
    return keras.KerasTensor(tuple(spec.shape), spec.dtype.name, **ragged)
