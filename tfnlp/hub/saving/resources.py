"""What the layers of a Keras model hold besides variables: tables, assets, loaded SavedModels."""

import inspect
import types

import keras
import tensorflow as tf

_CONTAINERS = list | tuple | set | frozenset
_LIBRARIES = ("builtins", "keras", "numpy", "tensorflow")


def resources(model):
    """List of `(layer, object)`, TensorFlow's trackable objects that the layers of `model` hold.

    A SavedModel has to carry them: their graphs look things up in them. They are found in the
    attributes of layers and of the layers in these, in lists, dicts and objects there, and in what
    functions (of a `Lambda`, say) refer to. Keras's own variables are not among them.
    """
    found, seen = [], {}
    _visit(model, model, found, seen)
    return found


def _visit(value, layer, found, seen):
    if value is None or isinstance(value, str | bytes | int | float | type | types.ModuleType):
        return
    if id(value) in seen:
        return
    seen[id(value)] = value  # kept, so that no other object takes its id
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
        return  # a concrete function, whose resources are those of where it comes from
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


def _visit_all(values, layer, found, seen):
    for value in list(values):
        _visit(value, layer, found, seen)


def _is_of_a_library(value):
    module = value.__module__ if isinstance(value, types.FunctionType) else type(value).__module__
    return (module or "").split(".")[0] in _LIBRARIES
