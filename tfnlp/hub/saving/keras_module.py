"""A functional Keras model as a Reusable SavedModel object."""

from __future__ import annotations

import contextlib
import inspect
import keyword
import re
import types
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from tfnlp.hub.loading.dense_gradients import gradients_as_loaded
from tfnlp.hub.traced import Traced, Untracked, named
from tfnlp.training.randomness import layer_seeds, seeded, write_back

if TYPE_CHECKING:
    from tfnlp.hub.saving.compact import CompactWeights

_LIBRARIES = ("builtins", "keras", "numpy", "tensorflow")


class KerasModule(Traced):
    """Keras model with one traced `__call__`, which takes and returns the model's structures.

    The interface is TF-Hub's: `module(inputs, training=False)`, `module.variables`,
    `module.trainable_variables`, `module.regularization_losses`; see `tfnlp.hub.export`. After
    `tfnlp.hub.save` TensorFlow alone restores it, and it trains inside `hub.KerasLayer`.

    The seeds of dropout are drawn inside the call, not kept in variables, so that each call and
    each replica of the user's strategy draws its own.

    Args:
        model: a functional or built Sequential model; its inputs and outputs are a dense tensor,
            or lists and dicts of them.
        default: name of the output that `outputs["default"]` repeats, or None.
        weights: `tfnlp.hub.saving.compact.CompactWeights` of this model, or None. With them the
            module always computes as in inference, and has no trainable variables.
    """

    def __init__(
        self,
        model: keras.Model,
        default: str | None = None,
        weights: CompactWeights | None = None,
    ) -> None:
        super().__init__(model if weights is None else None)
        self._model, self._weights = Untracked(model), Untracked(weights)
        self._default = default
        held = resources(model)
        self._resources = [held_object for _, held_object in held]
        if weights is None:
            self.regularization_losses = regularization_losses(model.trainable_variables)
            for layer, held_object in held:
                if layer.trainable:
                    found = getattr(held_object, "regularization_losses", None) or ()
                    self.regularization_losses.extend(found)
        else:
            self.variables = weights.variables_of(model)
        listed = {id(v) for v in self.variables}
        others = {}
        for training in (False, True):  # trace all calls that a user may make
            call = self.__call__.get_concrete_function(self.input_spec(), training=training)
            if weights is not None:
                weights.check(call.graph.variables)
            others.update({id(v): v for v in call.graph.variables if id(v) not in listed})
        # Seeds of dropout that also runs in inference, and variables that Keras does not track.
        self._others = list(others.values())

    def input_spec(self) -> Any:
        """Return the named `tf.TensorSpec`s of the inputs, see the function `input_spec`."""
        return input_spec(self._model.value)

    @tf.function(autograph=False)
    def __call__(self, inputs: Any, training: bool = False) -> Any:
        model = self._model.value
        if self._weights.value is not None:
            outputs = self._inference(inputs)
        elif training:
            seed = tf.random.uniform([2], maxval=2**31 - 1, dtype="int32")
            with seeded(model, layer_seeds(model, seed)) as scope, gradients_as_loaded():
                outputs = model(inputs, training=True)
            write_back(model, scope)
        else:
            outputs = model(inputs, training=False)
        if isinstance(outputs, dict):
            outputs = dict(outputs)
        if self._default is not None:
            outputs["default"] = outputs[self._default]
        return outputs

    @tf.function(autograph=False)
    def _inference(self, inputs: Any) -> Any:
        # One graph for both values of `training`.
        with self.stored_weights():
            return self._model.value(inputs, training=False)

    def stored_weights(self) -> contextlib.AbstractContextManager:
        """Make the model's layers read the `weights` argument inside the context."""
        if self._weights.value is None:
            return contextlib.nullcontext()
        return self._weights.value.scope(self._model.value)

    def outputs(self) -> Any:
        """Return the nest of symbolic outputs."""
        outputs = symbols(self._model.value)[1]
        if self._default is not None:
            outputs = {**outputs, "default": outputs[self._default]}
        return outputs

    def signature(self, names: Collection[str] | None = None) -> Callable:
        """Return a concrete function of named tensors for serving.

        `names` are outputs to serve, as in `leaf_names`; the key of a list
        stands for all tensors in it; unknown names are left out. None: all outputs.
        """
        return serving(self.__call__, self.input_spec(), self.outputs(), names)


def symbols(model: keras.Model) -> tuple[Any, Any]:
    """Return the symbolic inputs and outputs of a model, in the structure of its calls."""
    if isinstance(model, keras.Sequential):  # its `.input` is that of a layer
        return model.inputs[0], model.outputs[0]
    return model.input, model.output


def input_spec(model: keras.Model) -> Any:
    """Return the named `tf.TensorSpec`s of the inputs of a model, in its structure."""
    inputs, _ = symbols(model)
    open_batch = isinstance(model, keras.Sequential)  # it may keep the first batch's size

    def spec(x: keras.KerasTensor, name: str) -> tf.TensorSpec:
        shape = (None, *x.shape[1:]) if open_batch else x.shape
        return tf.TensorSpec(shape, x.dtype, name=name)

    names = argument_names(leaf_names(inputs))
    specs = [spec(x, name) for x, name in zip(tf.nest.flatten(inputs), names, strict=True)]
    return tf.nest.pack_sequence_as(inputs, specs)


def serving(
    call: Callable, input_spec: Any, outputs: Any, names: Collection[str] | None = None
) -> Callable:
    """Return `call(inputs, training=False)` as a concrete function of named tensors to a dict.

    `input_spec` is a nest of `tf.TensorSpec`s with names, `outputs` one of the symbolic outputs;
    for `names` see `KerasModule.signature`.
    """
    specs = {spec.name: spec for spec in tf.nest.flatten(input_spec)}
    output_names = leaf_names(outputs)
    keys = [path[0] if path else "" for path, _ in keras.tree.flatten_with_path(outputs)]

    def serve(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = tf.nest.pack_sequence_as(input_spec, [inputs[name] for name in specs])
        flat = tf.nest.flatten(call(inputs, training=False))
        return {
            name: x
            for name, key, x in zip(output_names, keys, flat, strict=True)
            if names is None or name in names or key in names
        }

    return named(serve, **specs)


def serving_of(
    model: keras.Model, names: Collection[str] | None = None, spec: Any = None
) -> Callable:
    """Return a model as `serving` does, for inputs of a `spec`; None: those that it states."""
    return serving(model, input_spec(model) if spec is None else spec, symbols(model)[1], names)


def regularization_losses(variables: Iterable[keras.Variable]) -> list[Callable[[], tf.Tensor]]:
    """Return the traced losses of the variables that have a regularizer."""

    def loss_of(variable: keras.Variable) -> Callable[[], tf.Tensor]:
        return lambda: variable.regularizer(variable)

    return [regularization_loss(loss_of(v)) for v in variables if v.regularizer is not None]


def regularization_loss(loss: Callable[[], tf.Tensor]) -> Callable[[], tf.Tensor]:
    """Return a traced function without arguments, an item of `regularization_losses`."""
    loss = tf.function(loss, input_signature=[], autograph=False)
    loss.get_concrete_function()
    return loss


def leaf_names(structure: Any) -> list[str]:
    """Return unique names of the tensors in `structure`, in the order of `tf.nest.flatten`.

    The name of a tensor in a dict is its key; in a list in a dict, the key and a number
    (`encoder_outputs_0`); otherwise the name of the layer that made it.
    """
    found = []
    for path, x in keras.tree.flatten_with_path(structure):
        keys = [i for i, part in enumerate(path) if isinstance(part, str)]
        history = getattr(x, "_keras_history", None)
        if keys:
            found.append("_".join(map(str, path[keys[0] :])))
        else:
            found.append(x.name if history is None else history.operation.name)
    return _unique(found)


def argument_names(names: Iterable[str]) -> list[str]:
    """Return the names as unique Python identifiers, which the inputs of signatures must be."""
    found = []
    for name in names:
        name = re.sub(r"\W", "_", name, flags=re.ASCII)
        if not name or name[0].isdigit() or keyword.iskeyword(name):
            name = f"input_{name}"
        found.append(name)
    return _unique(found)


def _unique(names: list[str]) -> list[str]:
    used, found = set(names), []
    for i, name in enumerate(names):
        unique, number = name, 0
        while unique in found or (number and unique in used):
            number += 1
            unique = f"{names[i]}_{number}"
        found.append(unique)
    return found


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
    tracked = isinstance(value, tf.__internal__.tracking.Trackable)
    inside: Iterable[Any] = ()
    if isinstance(value, keras.Operation):
        layer = value if isinstance(value, keras.layers.Layer) else layer
        inside = vars(value).values()
    elif isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        inside = value
    elif isinstance(value, types.MethodType):
        inside = [value.__self__, value.__func__]
    elif hasattr(value, "python_function"):  # of `tf.function`
        inside = [value.python_function]
    elif hasattr(value, "structured_input_signature"):
        pass  # a concrete function: its resources are held by the object that it belongs to
    elif _is_of_a_library(value) and not tracked:
        pass
    elif isinstance(value, types.FunctionType):
        closure = inspect.getclosurevars(value)
        inside = [*closure.nonlocals.values(), *closure.globals.values()]
    elif isinstance(value, keras.Variable) or type(value).__module__.startswith("keras."):
        pass
    elif tracked:
        found.append((layer, value))
    else:
        inside = getattr(value, "__dict__", {}).values()
    for part in list(inside):
        _visit(part, layer, found, seen)


def _is_of_a_library(value: Any) -> bool:
    module = value.__module__ if isinstance(value, types.FunctionType) else type(value).__module__
    return (module or "").split(".")[0] in _LIBRARIES
