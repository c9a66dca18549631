"""ONNX files of models, for ONNX Runtime and whatever else reads them."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.extras import needed
from tfnlp.files import first_line
from tfnlp.hub.saving.compact import bytes_of, quantized

ENDING = ".onnx"
FIXED_LENGTH = False
OPSET = 17  # ONNX Runtime 1.12 (2022) and later
_LARGEST = 2**31 - 2**20  # bytes of a file without parts: protobuf's limit, less the graph
_SMALLEST = 1024  # numbers of a matrix that is stored in fewer bits


def check_installed() -> None:
    """Raise ImportError, one line, if tf2onnx or onnx is missing."""
    for module in ("onnx", "tf2onnx"):
        needed(module, "tf2onnx onnxruntime", "onnx", "an ONNX file")


def convert(function: Any, title: str, weights: str | None = None) -> bytes:
    """Return an ONNX file that computes a concrete function.

    Inputs and outputs have the names that they have there. Open axes stay open. With `weights`
    "int8" matrices are int8 with a scale for each index of one axis, see
    `tfnlp.hub.saving.compact.quantized`; the graph converts them, or bfloat16, to float32.
    """
    import tf2onnx

    size = bytes_of(function.graph.variables)
    if size > _LARGEST:
        raise ValueError(
            f"{title} cannot be an ONNX file: its weights are {size / 1e9:.1f} GB, and a file "
            "holds 2 GB at most"
        )

    class Traced:
        def get_concrete_function(self, *_: Any) -> Any:
            return function

    handlers = {"Erfc": (_erfc, [])}
    try:
        graph, _ = tf2onnx.convert.from_function(
            Traced(), input_signature=(), opset=OPSET, custom_op_handlers=handlers
        )
    except Exception as error:  # tf2onnx raises what comes
        raise ValueError(f"{title} cannot be an ONNX file: {first_line(error)}") from error
    lost = _unknown(graph.graph)  # tf2onnx logs them and goes on
    if lost:
        raise ValueError(f"{title} cannot be an ONNX file, which lacks {', '.join(lost)}")
    graph.producer_name, graph.doc_string = "tfnlp", ""
    _name_axes(graph.graph)
    if weights is not None:
        _store(graph.graph, weights)
    graph.graph.name, graph.graph.doc_string = "tfnlp", ""
    _settle(graph.graph, {}, itertools.count())
    return graph.SerializeToString(deterministic=True)


def _erfc(context: Any, node: Any, name: str, _: Any) -> None:
    """Write TensorFlow's `Erfc(x)`, which is in the exact GELU, as `1 - Erf(x)`."""
    (given,), (output,) = node.input, node.output
    shape, dtype = context.get_shape(output), context.get_dtype(output)
    context.remove_node(node.name)
    erf = context.make_node("Erf", [given], dtypes=[dtype], shapes=[shape])
    one = context.make_const(f"{name}_one", np.float32(1))
    given = [one.output[0], erf.output[0]]
    context.make_node("Sub", given, outputs=[output], name=name, dtypes=[dtype], shapes=[shape])


def _name_axes(graph: Any) -> None:
    """Give the open axes of the inputs names, and take tf2onnx's off those of the outputs."""
    for value in graph.input:
        axes = value.type.tensor_type.shape.dim
        names = ("batch", "length") if len(axes) < 3 else ("batch", "sequences", "length")
        for axis, name in zip(axes, names, strict=False):
            if not axis.dim_value:
                axis.dim_param = name
    for value in graph.output:
        for number, axis in enumerate(value.type.tensor_type.shape.dim):
            if not axis.dim_value:
                axis.dim_param = "batch" if number == 0 else f"{value.name}_{number}"


def _store(graph: Any, kind: str) -> None:
    """Store the float32 matrices of a graph in fewer bits, with a node that converts them."""
    import onnx

    stored, nodes = [], []
    for tensor in graph.initializer:
        kept = tensor.data_type != onnx.TensorProto.FLOAT or len(tensor.dims) < 2
        if kept or math.prod(tensor.dims) < _SMALLEST:
            stored.append(tensor)
            continue
        values, name = onnx.numpy_helper.to_array(tensor), f"{tensor.name}_{kind}"
        found = quantized(values) if kind == "int8" else None
        if kind == "bfloat16":
            rounded = tf.cast(values, "bfloat16").numpy()
            part = onnx.TensorProto(name=name, dims=tensor.dims, raw_data=rounded.tobytes())
            part.data_type = onnx.TensorProto.BFLOAT16
            stored.append(part)
            nodes.append(onnx.helper.make_node("Cast", [name], [tensor.name], to=1))
        elif found is None:
            stored.append(tensor)
        else:
            (q, scale), names = found, [name, f"{name}_scale"]
            axis = max(range(scale.ndim), key=lambda i: scale.shape[i])
            parts = zip((q, scale.reshape(-1)), names, strict=True)
            stored += [onnx.numpy_helper.from_array(x, n) for x, n in parts]
            nodes.append(onnx.helper.make_node("DequantizeLinear", names, [tensor.name], axis=axis))
    nodes += graph.node
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(stored)
    graph.node.extend(nodes)


def _settle(graph: Any, names: dict[str, str], numbers: Iterator[int]) -> None:
    """Order and name a graph's nodes by how its outputs are computed, so that it is the same again.

    tf2onnx counts its names on through a process, and orders nodes as a set of strings comes.
    `names` are those of the graph around it, old to new.
    """
    nodes = _in_order(graph)
    constants = {tensor.name: tensor for tensor in graph.initializer}
    kept = [] if names else [value.name for value in (*graph.input, *graph.output)]
    names = {**names, **{name: name for name in ("", *kept)}}
    used = []
    for value in graph.input:
        value.name = names.setdefault(value.name, f"input_{next(numbers)}")
    for node in nodes:
        for name in _read(node):
            if name in constants:
                used.append(constants.pop(name))
                names.setdefault(name, f"constant_{next(numbers)}")
        node.name = f"{node.op_type}_{next(numbers)}"
        for number, name in enumerate(node.output):
            names.setdefault(name, node.name if number == 0 else f"{node.name}:{number}")
        for part in _branches(node):
            _settle(part, names, numbers)
        node.input[:] = [names[name] for name in node.input]
        node.output[:] = [names[name] for name in node.output]
    for value in graph.output:
        if value.name in constants:  # nothing is computed
            used.append(constants[value.name])
            names.setdefault(value.name, f"constant_{next(numbers)}")
    for value in (*used, *graph.output):
        value.name = names[value.name]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend(used)


def _in_order(graph: Any) -> list[Any]:
    """Return copies of the nodes that the outputs depend on, each after what it reads."""
    makers = {name: node for node in graph.node for name in node.output}
    found, stack = {}, [value.name for value in reversed(graph.output)]
    while stack:
        node = makers.get(stack[-1])
        if node is None or node.output[0] in found:  # an input, or done
            stack.pop()
            continue
        before = [n for n in _read(node) if n in makers and makers[n].output[0] not in found]
        if before:
            stack.append(before[0])
        else:
            found[node.output[0]] = type(node).FromString(node.SerializeToString())
    return list(found.values())


def _read(node: Any) -> list[str]:
    """Return the names that a node reads, its branches included."""
    inner = [inside for part in _branches(node) for inside in part.node]
    results = [value.name for part in _branches(node) for value in part.output]
    return [*node.input, *(name for inside in inner for name in _read(inside)), *results]


def _branches(node: Any) -> list[Any]:
    """Return the graphs inside a node: of a loop, of an `If`."""
    return [part for x in node.attribute for part in ([x.g] if x.HasField("g") else x.graphs)]


def _unknown(graph: Any) -> list[str]:
    """Return the names of a graph's operations, and of those of its branches, that ONNX lacks."""
    import onnx

    names = set()
    for node in graph.node:
        if not onnx.defs.has(node.op_type, OPSET, node.domain):
            names.add(node.op_type)
        for part in _branches(node):
            names.update(_unknown(part))
    return sorted(names)
