"""Shapes of a model's weights, without the memory or the time that the model would take."""

import inspect
import math
import random
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras

# Arguments that count equal layers above each other.
_DEPTHS = ("num_layers", "num_highway", "lstm_layers")
_FEW = (2, 3)  # depths that are built; layers beyond repeat the last


def weight_shapes(
    build: Callable[..., keras.Model], arguments: dict[str, Any]
) -> dict[str, tuple[int, ...]]:
    """Return the path and shape of every weight of the model `build(**arguments)`, in any order.

    No weight is allocated or filled, so a configuration of any size can be compared with a
    checkpoint before the model is built. A deep model costs no more than a few layers: it is built
    with 2 and with 3 layers, and what the third one adds is repeated.

    `build` is a function of `tfnlp.models`, or another that returns a model and takes the numbers
    of its layers as `num_layers`, `num_highway` and `lstm_layers`; its ValueErrors are raised.
    """
    name, depth = _deep(build, arguments)
    if name is not None:
        fewer, more = (weight_shapes(build, {**arguments, name: few}) for few in _FEW)
        return _extrapolated(fewer, more, depth)
    # What Keras notes about variables without values is kept for each thread. With this thread
    # it ends; otherwise the next scope would fill them.
    state = random.getstate()  # unseeded initializers draw their seeds from it
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(_built_shapes, build, arguments).result()
    finally:
        random.setstate(state)


def count_weights(build: Callable[..., keras.Model], arguments: dict[str, Any]) -> int:
    """Return how many numbers the weights of the model `build(**arguments)` have.

    As `weight_shapes`, but in a time that does not depend on the number of layers.
    """
    name, depth = _deep(build, arguments)
    if name is not None:
        fewer, more = (count_weights(build, {**arguments, name: few}) for few in _FEW)
        return fewer + (depth - _FEW[0]) * (more - fewer)
    return sum(math.prod(shape) for shape in weight_shapes(build, arguments).values())


def _deep(build: Callable[..., keras.Model], arguments: dict[str, Any]) -> tuple[str | None, int]:
    """Return the first argument that asks for more layers than are built, and its value."""
    parameters = inspect.signature(build).parameters
    for name in _DEPTHS:
        default = parameters[name].default if name in parameters else None
        depth = arguments.get(name, default)
        if isinstance(depth, int) and depth > _FEW[1]:
            return name, depth
    return None, 0


def _built_shapes(
    build: Callable[..., keras.Model], arguments: dict[str, Any]
) -> dict[str, tuple[int, ...]]:
    with keras.StatelessScope(initialize_variables=False):
        model = build(**arguments)
    return {weight.path: tuple(weight.shape) for weight in model.weights}


def _extrapolated(
    fewer: dict[str, tuple[int, ...]], more: dict[str, tuple[int, ...]], depth: int
) -> dict[str, tuple[int, ...]]:
    """Return the shapes at `depth` layers from those at 2 and at 3 layers.

    Weights of the third layer, whose paths have the index 2, are repeated. The axes of the other
    weights grow linearly: those of a mix of all layers have one number more for each layer.
    """
    steps = depth - _FEW[0]
    shapes = {}
    for path, shape in more.items():
        if path in fewer:
            shapes[path] = tuple(
                a + steps * (b - a) for a, b in zip(fewer[path], shape, strict=True)
            )
            continue
        for index in range(_FEW[0], depth):
            # A number of its own: `layer_2/...`, not that of `conv_25`.
            shapes[re.sub(r"_2(?=[_/]|$)", f"_{index}", path, count=1)] = shape
    return shapes
