"""The floating-point operations of a step's matrix products, counted in its graph.

A multiply-add counts as two operations. Matrix products, einsums of two operands and convolutions
are counted, forwards and backwards, if the results depend on them. All else (norms, softmaxes, the
optimizer) is small in comparison and never reaches the rate of a matrix product.

    [m, k] x [k, n]: 2 m k n, times the batch axes
    convolution to [B, h, w, n] with a kernel [y, x, c, n]: 2 B h w n y x c; its two gradients alike
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

Shape = list[int | None]
Place = tuple[str, int, int, Shape]  # side, index, axis, the shape that has it
Factor = int | tuple[str, int, int | None]

_FLIPPED = {
    "MatMul": ("transpose_a", "transpose_b"),
    "BatchMatMul": ("adj_x", "adj_y"),
    "BatchMatMulV2": ("adj_x", "adj_y"),
    "BatchMatMulV3": ("adj_x", "adj_y"),
}
# Where a convolution has its kernel and its result (or the gradient of its result).
_CONVOLUTIONS = {
    "Conv2D": (("input", 1), ("output", 0)),
    "Conv2DBackpropInput": (("input", 1), ("input", 2)),
    "Conv2DBackpropFilter": (("output", 0), ("input", 2)),
}
_LOOPS = ("While", "StatelessWhile")
_CALLS = (
    *_LOOPS,
    *("If", "StatelessIf", "Case", "StatelessCase", "PartitionedCall", "StatefulPartitionedCall"),
)


@tf.autograph.experimental.do_not_convert
def matmul_flops(tensors: Sequence[tf.Tensor]) -> tf.Tensor | None:
    """Return the operations in the matrix products that `tensors` depend on.

    Call it while a graph is traced. Sizes that are known then become one constant. Sizes that
    depend on the batch (its number of distinct words) and the iterations of a loop are read when
    the graph runs, so the count is exact for them too. Of several branches the one with the most
    operations is counted.

    Returns:
        A float32 scalar; None in eager mode, for a tensor of unknown rank, or if a size inside the
        body of a loop is not known.
    """
    if tf.executing_eagerly():
        return None
    constant, parts, functions = 0, [], None
    for op in _needed(tensors):
        factors = _factors(op.type, op.get_attr, _Shapes(op.inputs, op.outputs))
        if factors is not None:
            known = 2 * math.prod(f for f in factors if isinstance(f, int))
            read = [f for f in factors if not isinstance(f, int)]
            if any(axis is None for _, _, axis in read):
                return None
            if read:
                parts.append(math.prod((_size(op, *f) for f in read), start=float(known)))
            else:
                constant += known
        elif op.type in _CALLS:
            if functions is None:
                graph = op.graph.as_graph_def(add_shapes=True)
                functions = {f.signature.name: f for f in graph.library.function}
            inside = _inside(op.node_def, functions)
            if inside is None:
                return None
            if inside and op.type in _LOOPS:  # its first output counts the iterations
                parts.append(float(inside) * tf.cast(op.outputs[0], "float32"))
            else:
                constant += inside
    return tf.add_n([tf.constant(float(constant)), *parts])


def _needed(tensors: Sequence[tf.Tensor]) -> set[tf.Operation]:
    """Return every operation of the graph that `tensors` are computed from."""
    found, waiting = set(), [t.op for t in tensors]
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting.extend(t.op for t in op.inputs)
    return found


class _Shapes:
    """Shapes of an operation's inputs and outputs: lists with None for unknown sizes."""

    def __init__(self, inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]) -> None:
        self._shapes = {"input": inputs, "output": outputs}

    def __call__(self, side: str, index: int) -> Shape | None:
        shape = self._shapes[side][index].shape
        return None if shape.rank is None else shape.as_list()


def _factors(
    kind: str, attribute: Callable[[str], Any], shapes: Callable[[str, int], Shape | None]
) -> list[Factor] | None:
    """Return half the operations as factors: sizes, or their places as (side, index, axis).

    None: no matrix product. Axes count from the last one, because batch axes are broadcast; the
    axis None stands for an unknown rank.
    """
    if kind in _FLIPPED:
        flip_a, flip_b = (attribute(name) for name in _FLIPPED[kind])
        a, b = shapes("input", 0), shapes("input", 1)
        if a is None or b is None:
            return [("input", 0, None)]
        rows, shared = (-1, -2) if flip_a else (-2, -1)
        columns, shared_b = (-2, -1) if flip_b else (-1, -2)
        return [
            _either(("input", 0, rows, a)),
            _either(("input", 0, shared, a), ("input", 1, shared_b, b)),
            _either(("input", 1, columns, b)),
            *(
                _broadcast(("input", 0, axis, a), ("input", 1, axis, b))
                for axis in range(-max(len(a), len(b)), -2)
            ),
        ]
    if kind == "Einsum" and attribute("N") == 2:
        places = {}
        terms = _text(attribute("equation")).split("->")[0].split(",")
        for index, labels in enumerate(terms):
            shape = shapes("input", index)
            if "." in labels or shape is None:
                return [("input", index, None)]
            for axis, label in enumerate(labels):
                places.setdefault(label, []).append(("input", index, axis - len(shape), shape))
        return [_either(*found) for found in places.values()]
    if kind in _CONVOLUTIONS:
        kernel, result = _CONVOLUTIONS[kind]
        if shapes(*kernel) is None or shapes(*result) is None:
            return [(*result, None)]
        return [
            *(_either((*result, axis, shapes(*result))) for axis in range(-4, 0)),
            *(_either((*kernel, axis, shapes(*kernel))) for axis in range(-4, -1)),
        ]
    return None


def _either(*places: Place) -> Factor:
    """Return the size that several axes share: a number if one is known, else the first place."""
    known = [shape[axis] for _, _, axis, shape in places if shape[axis] is not None]
    return known[0] if known else places[0][:3]


def _broadcast(*places: Place) -> Factor:
    """Return the size of a batch axis of two operands, one of which may lack it or have 1."""
    places = [p for p in places if -p[2] <= len(p[3]) and p[3][p[2]] != 1]
    return _either(*places) if places else 1


def _size(op: tf.Operation, side: str, index: int, axis: int) -> tf.Tensor:
    """Return a size that is known when the graph runs, float32."""
    tensor = (op.inputs if side == "input" else op.outputs)[index]
    others = tensor.shape.as_list()
    del others[axis]
    if None in others or 0 in others:
        return tf.cast(tf.shape(tensor)[axis], "float32")
    # The same in half as many operations, and a traced step has dozens of these.
    return tf.cast(tf.size(tensor, "int64") // math.prod(others), "float32")


def _inside(node: Any, functions: Mapping[str, Any]) -> int | None:
    """Return the operations in one call of `node`, or one iteration of its loop; None: unknown."""
    names = []
    for value in node.attr.values():
        names += [f.name for f in (value.func, *value.list.func) if f.name]
    counts = [_in_function(functions[name], functions) for name in names]
    return None if None in counts else max(counts)


def _in_function(function: Any, functions: Mapping[str, Any]) -> int | None:
    """Return the operations in one call of a `FunctionDef`; None: unknown."""
    shapes = dict(
        zip(
            (argument.name for argument in function.signature.input_arg),
            function.attr["_input_shapes"].list.shape,
            strict=False,
        )
    )
    for node in function.node_def:
        shapes[node.name] = node.attr["_output_shapes"].list.shape
    total = 0
    for node in function.node_def:
        if node.op in _CALLS:
            inside = _inside(node, functions)
            if inside is None or (inside and node.op in _LOOPS):
                return None
            total += inside
            continue
        factors = _factors(node.op, _attribute(node), _node_shapes(node, shapes))
        if factors is not None:
            if not all(isinstance(f, int) for f in factors):
                return None
            total += 2 * math.prod(factors)
    return total


def _attribute(node: Any) -> Callable[[str], Any]:
    def get(name: str) -> Any:
        value = node.attr[name]
        return getattr(value, value.WhichOneof("value"))

    return get


def _node_shapes(node: Any, shapes: Mapping[str, Any]) -> Callable[[str, int], Shape | None]:
    """Return the shapes of a function's node as a function of side and index.

    Inputs of a node are written `argument` or `node:output name:index`. The functions of a
    SavedModel have no shapes: TensorFlow then reads rank 0, which no product has, so that rank
    counts as unknown.
    """

    def shape_of(side: str, index: int) -> Shape | None:
        name, output = node.name, index
        if side == "input":
            name, *rest = node.input[index].split(":")
            output = int(rest[-1]) if rest else None
        found = shapes.get(name)
        if found is not None and output is not None:
            found = found[output] if output < len(found) else None
        if found is None or found.unknown_rank or not found.dim:
            return None
        return [d.size if d.size >= 0 else None for d in found.dim]

    return shape_of


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
