"""The traces of a restored function, and what a `tfnlp.hub.Layer` passes to it."""

import functools
import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf


@dataclass(frozen=True)
class Trace:
    """One graph of a function: nests of `tf.TypeSpec`s and of Python values.

    `names` are the parameters that can be given by position. A signature is called by names alone.
    """

    args: tuple
    kwargs: dict[str, Any]
    outputs: Any
    names: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def arguments(self) -> dict[str, Any]:
        """All arguments by name; those of `*args` are named `*0`, `*1`, ..."""
        more = len(self.args) - len(self.names)
        names = [*self.names[: len(self.args)], *(f"*{i}" for i in range(more))]
        return {**dict(zip(names, self.args, strict=True)), **self.kwargs}

    @property
    def inputs(self) -> Any:
        """The first argument; of a signature a dict of all."""
        return self.args[0] if self.args else self.kwargs

    @functools.cached_property
    def others(self) -> dict[str, Any]:
        """The arguments besides the inputs, by name."""
        return dict(list(self.arguments.items())[1:]) if self.args else {}


def traces_of(function: Callable) -> list[Trace]:
    """Return the `Trace`s of a restored function, a restored callable object or a signature.

    A function that was not restored has none.
    """
    found, by_names = [], hasattr(function, "structured_input_signature")
    for graph in graphs_of(function):
        args, kwargs = graph.structured_input_signature
        outputs = plain(graph.structured_outputs)
        if by_names:
            found.append(Trace((), dict(kwargs), outputs))
        elif args:
            taken = inspect.signature(_restored(function)).parameters
            defaults = {n: x.default for n, x in taken.items() if x.default is not x.empty}
            found.append(Trace(plain(args), kwargs, outputs, tuple(taken), defaults))
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

    Integers fit any width of integer, floats any width of float, and in a graph float32 fits all;
    see `converted`. Arguments that are not given take their defaults.
    """
    found = []
    for trace in traces:
        pairs = _pairs(trace.inputs, inputs)
        if pairs is None or not all(_fits(spec, x) for spec, x in pairs):
            continue
        given = {**trace.defaults, **arguments}
        if all(_fits_argument(v, given.get(k, _ABSENT)) for k, v in trace.others.items()):
            if arguments.keys() <= trace.others.keys():
                exact = sum(spec.dtype == tf.as_dtype(x.dtype) for spec, x in pairs)
                found.append((exact, len(found), trace))
    return max(found, key=lambda f: (f[0], -f[1]))[2] if found else None


def converted(specs: Any, inputs: Any) -> Any:
    """Return `inputs` in the structure and the dtypes of the inputs of a trace."""
    found = []
    for spec, x in _pairs(specs, inputs):
        if x.dtype != spec.dtype:
            as_strings = spec.dtype == tf.string
            x = tf.strings.as_string(x) if as_strings else tf.cast(x, spec.dtype)
        found.append(x)
    return tf.nest.pack_sequence_as(specs, found)


def plain(nest: Any) -> Any:
    """Return a nest of dicts, lists and tuples without TensorFlow's wrappers."""
    if isinstance(nest, dict):
        return {key: plain(x) for key, x in nest.items()}
    if isinstance(nest, list | tuple):
        values = [plain(x) for x in nest]
        return tuple(values) if isinstance(nest, tuple) else values
    return nest


def described(nest: Any) -> str:
    """Describe a nest of specs, tensors and Python values in one line: `{ids: int32 [?, 8]}`."""
    if isinstance(nest, dict):
        items = sorted((printable(str(k)), described(v)) for k, v in nest.items())
        return "{" + ", ".join(f"{k}: {v}" for k, v in items) + "}"
    if isinstance(nest, list | tuple):
        kind = "tuple" if isinstance(nest, tuple) else "list"
        return f"{kind}[" + ", ".join(described(x) for x in nest) + "]"
    if not hasattr(nest, "dtype") or not hasattr(nest, "shape"):
        return printable(str(nest))
    rank, sparse = _ragged_rank(nest), isinstance(nest, tf.SparseTensorSpec)
    kind = " ragged" if rank else " sparse" if sparse else ""
    return f"{tf.as_dtype(nest.dtype).name} {shown_shape(nest.shape, rank)}{kind}"


def shown_shape(shape: Any, ragged: int = 0) -> str:
    """Return a shape as `[?, 8]`, ragged dimensions in parentheses."""
    shape = tf.TensorShape(shape)
    if shape.rank is None:
        return "[...]"
    sizes = ["?" if n is None else str(n) for n in shape]
    sizes = [f"({n})" if n == "?" and 1 <= i <= ragged else n for i, n in enumerate(sizes)]
    return f"[{', '.join(sizes)}]"


def printable(text: str) -> str:
    """Return `text`, with escapes if it is not printable."""
    return text if text.isprintable() else repr(text)[1:-1]


_ABSENT = object()


def _pairs(specs: Any, inputs: Any) -> list[tuple] | None:
    """Pair the leaves of a nest with what stands there in another; None if it differs.

    They are in the order of `tf.nest`.
    """
    if isinstance(specs, dict):
        if not isinstance(inputs, dict) or inputs.keys() != specs.keys():
            return None
        parts = [_pairs(specs[key], inputs[key]) for key in sorted(specs)]
    elif isinstance(specs, list | tuple):
        if not isinstance(inputs, list | tuple) or len(inputs) != len(specs):
            return None
        parts = [_pairs(*pair) for pair in zip(specs, inputs, strict=True)]
    else:
        return [(specs, inputs)]
    return None if None in parts else list(itertools.chain.from_iterable(parts))


def _fits(spec: Any, x: Any) -> bool:
    if not (hasattr(spec, "dtype") and hasattr(x, "dtype")):
        return False
    given, expected = tf.as_dtype(x.dtype), spec.dtype
    # Keras rebuilds a subclassed model from a file by tracing it with floats.
    rebuilt = given == tf.float32 and not tf.executing_eagerly()
    alike = given.is_integer and expected.is_integer or given.is_floating and expected.is_floating
    if not (given == expected or alike or rebuilt) or _ragged_rank(spec) != _ragged_rank(x):
        return False
    return tf.TensorShape(spec.shape).is_compatible_with(tf.TensorShape(x.shape))


def _fits_argument(traced: Any, given: Any) -> bool:
    if isinstance(traced, tf.TypeSpec):
        as_bool = isinstance(given, bool) and traced.dtype != tf.bool
        return given is not _ABSENT and given is not None and not as_bool
    return given is _ABSENT or given is traced or not hasattr(given, "dtype") and given == traced


def _ragged_rank(x: Any) -> int:
    if isinstance(x, tf.RaggedTensor | tf.RaggedTensorSpec):
        return x.ragged_rank
    if getattr(x, "ragged", False):  # of a KerasTensor
        return x.ragged_rank or 1
    return 0


def callable_of(module: Any, label: str, signature: str | None) -> Callable:
    """Return what the layer calls: the module, or one of its signatures."""
    if signature is None and callable(module):
        return module
    signatures = getattr(module, "signatures", {})
    names = ", ".join(signatures) or "none"
    if signature is None:
        raise ValueError(f"SavedModel {label} is not callable; give one of its signatures: {names}")
    if signature not in signatures:
        raise ValueError(f"signature={signature!r} is not one of those of {label}: {names}")
    return signatures[signature]


def argument_names(function: Callable, traces: list[Trace]) -> set[str]:
    """Return the names of the arguments besides the inputs; `mask` only if it was traced."""
    if traces:
        names = {name for trace in traces for name in trace.others}
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
            if signature or _dtype(spec) == tf.string:
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
    pairs = _pairs(spec, inputs)
    if pairs is None:
        return None
    try:
        tensors = [
            x if hasattr(x, "dtype") else tf.convert_to_tensor(x, dtype_hint=_dtype(leaf))
            for leaf, x in pairs
        ]
    except (TypeError, ValueError):  # a dict, or lists of several lengths
        return None
    return tf.nest.pack_sequence_as(spec, tensors)


def _dtype(spec: Any) -> Any:
    return getattr(spec, "dtype", None)


def reshaped(outputs: Any, shapes: Any, inputs: Any, apply: Callable[[Any, tuple], Any]) -> Any:
    """Return `apply(output, shape)` for each output; the batch size is that of the inputs."""
    batch, found = tf.nest.flatten(inputs)[0].shape[0], []
    for x, shape in _pairs(outputs, shapes) or [(outputs, None)]:
        whole = None if shape is None else (batch, *shape)
        if whole is None or not tf.TensorShape(whole).is_compatible_with(tf.TensorShape(x.shape)):
            raise ValueError(
                f"output_shape={shapes!r}, but the module returns {described(outputs)}"
            )
        found.append(apply(x, whole))
    return tf.nest.pack_sequence_as(outputs, found)


def dtype_policy(specs: list, dtype: Any) -> Any:
    """Return the dtype policy of the layer, given the specs of its inputs.

    It is the dtype of the input if that is a single tensor and no float: Sequential models make
    their input of that dtype. It is "string" also if the module takes either a tensor of strings
    or several tensors. Else it is the `dtype` that was given.
    """
    taken = {_dtype(spec) for spec in specs}
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
