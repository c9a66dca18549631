"""Lets TensorFlow free a graph whose operations have gradients of their own.

`tf.custom_gradient`, and so `keras.ops.custom_gradient`, registers a function for each call in a
graph, until the process ends. The function refers to tensors of the graph, so the graph is never
freed: each training and each model that predicts would leave theirs behind. `tf.saved_model.load`
registers the gradient functions of a module in the same way: 13 MB for that of a small BERT.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from tensorflow.python.framework import ops
from tensorflow.python.saved_model import function_deserialization

from tfnlp.optional_tensorflow import tf

_loading = threading.Lock()  # while it is held, what is registered is of one module


@contextlib.contextmanager
def freed_after_tracing() -> Iterator[None]:
    """Forget the gradient functions of the graph that is traced in this context.

    To be entered within a traced function whose results nobody differentiates: gradients that are
    taken inside of it are whole when it ends. Graphs of other functions that other threads
    trace meanwhile keep theirs.
    """
    traced = tf.compat.v1.get_default_graph()
    before = set(_functions())
    try:
        yield
    finally:
        for name, entry in list(_functions().items()):
            if name not in before and _is_within(_graph_of(entry["type"]), traced):
                _functions().pop(name, None)


def loaded_freely(load: Callable[[], Any]) -> Any:
    """Return the SavedModel that `load()` returns; its gradient functions are freed with it."""
    with _loading:
        before = set(_functions())
        module = load()
        names = [
            name
            for name, entry in list(_functions().items())
            if name not in before and entry["type"].__module__ == function_deserialization.__name__
        ]
    weakref.finalize(module, _forget, names).atexit = False
    return module


def _forget(names: list[str]) -> None:
    for name in names:
        _functions().pop(name, None)


def _functions() -> dict[str, Any]:
    """Return the functions that are registered, by the names of their operations."""
    return ops.gradient_registry._registry


def _graph_of(function: Callable, depth: int = 2) -> tf.Graph | None:
    """Return the graph of a tensor that a function refers to."""
    for cell in getattr(function, "__closure__", None) or ():
        for value in tf.nest.flatten(cell.cell_contents):
            if tf.is_symbolic_tensor(value):
                return value.graph
            if depth and callable(value) and (graph := _graph_of(value, depth - 1)) is not None:
                return graph
    return None


def _is_within(graph: tf.Graph | None, outer: tf.Graph) -> bool:
    while graph is not None and graph is not outer:
        graph = getattr(graph, "outer_graph", None)
    return graph is not None
