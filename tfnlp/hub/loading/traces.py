"""The traces of a restored function, and which of them fits a call."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class Trace:
    """One graph of a restored function, with specs of what it takes and returns."""

    inputs: Any  # the first argument
    arguments: dict[str, Any]  # the others by name, specs or Python values
    outputs: Any


def traces_of(function: Callable) -> list[Trace]:
    """Return the `Trace`s of a restored function, a restored callable object or a signature.

    A function that was not restored has none.
    """
    if hasattr(function, "structured_input_signature"):  # a signature, called by names
        inputs = dict(function.structured_input_signature[1])
        return [Trace(inputs, {}, plain(function.structured_outputs))]
    found = []
    for graph in graphs_of(function):
        args, kwargs = graph.structured_input_signature
        if args:
            names = list(inspect.signature(_restored(function)).parameters)
            arguments = {**dict(zip(names[1:], args[1:], strict=False)), **kwargs}
            found.append(Trace(plain(args[0]), arguments, plain(graph.structured_outputs)))
    return found


def graphs_of(function: Callable) -> list:
    """Return the concrete functions of a restored function or callable object, or a signature."""
    if hasattr(function, "structured_input_signature"):
        return [function]
    return list(getattr(_restored(function), "concrete_functions", ()))


def _restored(function: Callable) -> Any:
    return function if hasattr(function, "concrete_functions") else function.__call__


def fitting(traces: list[Trace], inputs: Any, arguments: dict[str, Any]) -> Trace | None:
    """Return the trace for a call, or None.

    Integers fit any width of integer, floats any width of float; see `converted`. Arguments that
    are not given take their defaults.
    """
    found = []
    for trace in traces:
        pairs = _pairs(trace.inputs, inputs)
        if pairs is None or not all(_fits(spec, x) for spec, x in pairs):
            continue
        if all(_fits_argument(v, arguments.get(k, _ABSENT)) for k, v in trace.arguments.items()):
            if arguments.keys() <= trace.arguments.keys():
                exact = sum(spec.dtype == tf.as_dtype(x.dtype) for spec, x in pairs)
                found.append((exact, len(found), trace))
    return max(found, key=lambda f: (f[0], -f[1]))[2] if found else None


def converted(specs: Any, inputs: Any) -> Any:
    """Return `inputs` in the structure and the dtypes of the inputs of a trace."""
    if isinstance(specs, dict):
        return {key: converted(spec, inputs[key]) for key, spec in specs.items()}
    if isinstance(specs, list | tuple):
        return type(specs)([converted(*pair) for pair in zip(specs, inputs, strict=True)])
    return inputs if inputs.dtype == specs.dtype else tf.cast(inputs, specs.dtype)


def plain(nest: Any) -> Any:
    """Return a nest of dicts, lists and tuples without TensorFlow's wrappers."""
    if isinstance(nest, dict):
        return {key: plain(x) for key, x in nest.items()}
    if isinstance(nest, list | tuple):
        values = [plain(x) for x in nest]
        return tuple(values) if isinstance(nest, tuple) else values
    return nest


def described(nest: Any) -> str:
    """Return a short description of a nest of specs or tensors: `{ids: int32 [?, 8]}`."""
    if isinstance(nest, dict):
        return "{" + ", ".join(f"{key}: {described(nest[key])}" for key in sorted(nest)) + "}"
    if isinstance(nest, list | tuple):
        return "[" + ", ".join(described(x) for x in nest) + "]"
    if not hasattr(nest, "dtype"):
        return type(nest).__name__
    shape = _shape(nest)
    sizes = "..." if shape is None else ", ".join("?" if n is None else str(n) for n in shape)
    ragged = "ragged " if _ragged_rank(nest) else ""
    return f"{ragged}{tf.as_dtype(nest.dtype).name} [{sizes}]"


_ABSENT = object()


def _pairs(specs: Any, inputs: Any) -> list[tuple] | None:
    """Pair the leaves of two nests; None if their structures differ."""
    if isinstance(specs, dict):
        if not isinstance(inputs, dict) or inputs.keys() != specs.keys():
            return None
        parts = [(specs[key], inputs[key]) for key in sorted(specs)]
    elif isinstance(specs, list | tuple):
        if not isinstance(inputs, list | tuple) or len(inputs) != len(specs):
            return None
        parts = list(zip(specs, inputs, strict=True))
    else:
        leaf = hasattr(inputs, "dtype") and hasattr(specs, "dtype")
        return [(specs, inputs)] if leaf else None
    pairs = []
    for part in parts:
        found = _pairs(*part)
        if found is None:
            return None
        pairs += found
    return pairs


def _fits(spec: Any, x: Any) -> bool:
    given, expected = tf.as_dtype(x.dtype), spec.dtype
    if given != expected and not (
        given.is_integer and expected.is_integer or given.is_floating and expected.is_floating
    ):
        return False
    if _ragged_rank(spec) != _ragged_rank(x):
        return False
    return tf.TensorShape(_shape(spec)).is_compatible_with(_shape(x))


def _fits_argument(traced: Any, given: Any) -> bool:
    if isinstance(traced, tf.TypeSpec):
        return given is not _ABSENT and given is not None and not isinstance(given, bool)
    return given is _ABSENT or given is traced or not hasattr(given, "dtype") and given == traced


def _shape(x: Any) -> tuple[int | None, ...] | None:
    """Return the sizes as a tuple, None where unknown; None for an unknown rank."""
    shape = x.shape
    return None if shape is None or getattr(shape, "rank", 0) is None else tuple(shape)


def _ragged_rank(x: Any) -> int:
    if isinstance(x, tf.RaggedTensor | tf.RaggedTensorSpec):
        return x.ragged_rank
    if getattr(x, "ragged", False):  # of a KerasTensor
        return x.ragged_rank or 1
    return 0
