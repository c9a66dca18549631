"""Tables, assets and loaded SavedModels that the layers of a Keras model hold."""

import inspect
import types
from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

_CONTAINERS = list | tuple | set | frozenset
_LIBRARIES = ("builtins", "keras", "numpy", "tensorflow")


def resources(model: keras.Model) -> list[tuple[keras.layers.Layer, Any]]:
    """Return `(layer, object)` for TensorFlow's trackable objects in the layers of `model`.

    A SavedModel must contain them, because its graphs use them. They are searched in the
    attributes of layers and their sub-layers, in lists, dicts and objects there, and in the
    variables that functions (such as that of a `Lambda`) refer to. Keras variables are left out.
    """
    found, seen = [], {}
    _visit(model, model, found, seen)
    return found


def _visit(value: Any, layer: keras.layers.Layer, found: list[tuple], seen: dict) -> None:
    if value is None or isinstance(value, str | bytes | int | float | type | types.ModuleType):
        return
    if id(value) in seen:
        return
    seen[id(value)] = value  # kept alive, so that no other object gets its id
    if isinstance(value, keras.Operation):
        layer = value if isinstance(value, keras.layers.Layer) else layer
        _visit_all(vars(value).values(), layer, found, seen)
    elif isinstance(value, dict):
        _visit_all(value.values(), layer, found, seen)
    elif isinstance(value, _CONTAINERS):
        _visit_all(value, layer, found, seen)
    elif isinstance(value, types.MethodType):
        _visit_all([value.__self__, value.__func__], layer, found, seen)
    elif hasattr(value, "python_function"):  # of `tf.function`
        _visit(value.python_function, layer, found, seen)
    elif hasattr(value, "structured_input_signature"):
        return  # a concrete function: its resources are held by the object that it belongs to
    elif _is_of_a_library(value) and not isinstance(value, tf.__internal__.tracking.Trackable):
        return
    elif isinstance(value, types.FunctionType):
        closure = inspect.getclosurevars(value)
        _visit_all([*closure.nonlocals.values(), *closure.globals.values()], layer, found, seen)
    elif isinstance(value, keras.Variable) or type(value).__module__.startswith("keras."):
        return
    elif isinstance(value, tf.__internal__.tracking.Trackable):
        found.append((layer, value))
    elif hasattr(value, "__dict__"):
        _visit_all(vars(value).values(), layer, found, seen)


def _visit_all(values: Iterable, layer: keras.layers.Layer, found: list[tuple], seen: dict) -> None:
    for value in list(values):
        _visit(value, layer, found, seen)


def _is_of_a_library(value: Any) -> bool:
    module = value.__module__ if isinstance(value, types.FunctionType) else type(value).__module__
    return (module or "").split(".")[0] in _LIBRARIES
