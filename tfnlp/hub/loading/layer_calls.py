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


def only_input(traces: list[Trace], signature: bool) -> str | None:
    """Return the name of the input that a tensor by itself stands for, or None.

    It is the one of a signature with a single input; and, of a module that is called with dicts
    only, the one of a dict of a single text.
    """
    if any(hasattr(trace.inputs, "dtype") for trace in traces):
        return None
    for trace in traces:
        if isinstance(trace.inputs, dict) and len(trace.inputs) == 1:
            ((name, spec),) = trace.inputs.items()
            if signature or getattr(spec, "dtype", None) == tf.string:
                return name
    return None


def specs_of(traces: list[Trace], name: str | None) -> list:
    """Return all that the traces take: nests of specs, and the spec of the input `name` itself."""
    alone = [trace.inputs[name] for trace in traces if name and list(trace.inputs) == [name]]
    return [*alone, *(trace.inputs for trace in traces)]


def as_tensors(specs: list, inputs: Any) -> Any:
    """Return inputs in which lists, strings and numbers of Python are tensors.

    The first of the specs that has the structure of the inputs says which lists are tensors and
    which hold several tensors. Without specs all are one tensor.
    """
    leaves = tf.nest.flatten(inputs)
    if any(type(x).__module__.startswith("tf_keras.") for x in leaves):
        raise ValueError(
            "inputs are symbols of tf_keras, which is Keras 2, but hub.Layer is for Keras 3; make "
            "them with `keras`, and unset TF_USE_LEGACY_KERAS if it is set"
        )
    if all(hasattr(x, "dtype") for x in leaves):
        return inputs
    for spec in specs:
        found = _as_tensors(spec, inputs)
        if found is not None:
            return found
    if specs:
        return tf.nest.map_structure(tf.convert_to_tensor, inputs)
    return tf.convert_to_tensor(inputs)


def _as_tensors(spec: Any, inputs: Any) -> Any:
    """Return the inputs as tensors; None if their structure is not that of the spec."""
    if isinstance(spec, dict):
        if not isinstance(inputs, dict) or inputs.keys() != spec.keys():
            return None
        found = {key: _as_tensors(spec[key], x) for key, x in inputs.items()}
        return None if any(x is None for x in found.values()) else found
    if isinstance(spec, list | tuple):
        if not isinstance(inputs, list | tuple) or len(inputs) != len(spec):
            return None
        found = [_as_tensors(*pair) for pair in zip(spec, inputs, strict=True)]
        return None if any(x is None for x in found) else found
    if hasattr(inputs, "dtype"):
        return inputs
    try:
        return tf.convert_to_tensor(inputs, dtype_hint=getattr(spec, "dtype", None))
    except (TypeError, ValueError):  # a dict, or lists of several lengths
        return None


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


def dtype_policy(specs: list, dtype: Any) -> Any:
    """Return the dtype policy of the layer, given the specs of its inputs.

    It is the dtype of the input if that is a single tensor and no float: Sequential models make
    their input of that dtype. It is "string" also if the module takes either a tensor of strings
    or several tensors. Else it is the `dtype` that was given.
    """
    taken = {getattr(spec, "dtype", None) for spec in specs}
    if tf.string in taken:
        taken.discard(None)
    if len(taken) == 1 and None not in taken and not next(iter(taken)).is_floating:
        return taken.pop().name
    try:  # `dtype=tf.string` is no policy, but TF-Hub's tutorials give it
        return dtype if tf.as_dtype(dtype).is_floating else None
    except TypeError:
        return dtype


def symbol(spec: tf.TypeSpec, label: str) -> keras.KerasTensor:
    """Return the symbolic tensor of a spec."""
    if spec.shape.rank is None:
        raise ValueError(f"{label} does not state the shape of its output; give output_shape")
    ragged = {}
    if isinstance(spec, tf.RaggedTensorSpec):
        splits = spec.row_splits_dtype.name
        ragged = dict(ragged=True, ragged_rank=spec.ragged_rank, row_splits_dtype=splits)
    return keras.KerasTensor(tuple(spec.shape), spec.dtype.name, **ragged)
