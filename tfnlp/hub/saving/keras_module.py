"""A functional Keras model as a Reusable SavedModel object."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from tfnlp.hub.loading.dense_gradients import gradients_as_loaded
from tfnlp.hub.saving.names import argument_names, leaf_names
from tfnlp.hub.saving.resources import resources
from tfnlp.hub.untracked import Untracked
from tfnlp.training.randomness import SEED_NAME, layer_seeds, seeded, write_back

if TYPE_CHECKING:
    from tfnlp.hub.saving.compact import CompactWeights


class KerasModule(tf.__internal__.tracking.AutoTrackable):
    """Keras model with one traced `__call__`, which takes and returns the model's structures.

    The interface is TF-Hub's: `module(inputs, training=False)`, `module.variables`,
    `module.trainable_variables`, `module.regularization_losses`; see `tfnlp.hub.export`. After
    `tfnlp.hub.save` TensorFlow alone restores it, and it trains inside `hub.KerasLayer`.

    Its lists hold plain `tf.Variable`s because properties and Keras objects are not saved. The
    seeds of dropout are drawn inside the call, not kept in variables, so that each call and each
    replica of the user's strategy draws its own.

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
        super().__init__()
        self._model, self._weights = Untracked(model), Untracked(weights)
        self._default = default
        held = resources(model)
        self._resources = [held_object for _, held_object in held]
        if weights is None:
            self.variables = [v.value for v in without_seeds(model)]
            self.trainable_variables = [v.value for v in model.trainable_variables]
            self.regularization_losses = regularization_losses(model.trainable_variables)
            for layer, held_object in held:
                if layer.trainable:
                    found = getattr(held_object, "regularization_losses", None) or ()
                    self.regularization_losses.extend(found)
        else:
            self.variables = weights.variables_of(model)
            self.trainable_variables = []
            self.regularization_losses = []
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

        `names` are outputs to serve, as in `tfnlp.hub.saving.names.leaf_names`; the key of a list
        stands for all tensors in it; unknown names are left out. None: all outputs.
        """
        return serving(self.__call__, self.input_spec(), self.outputs(), names)


def symbols(model: keras.Model) -> tuple[Any, Any]:
    """Return the symbolic inputs and outputs of a model, in the structure of its calls."""
    if isinstance(model, keras.Sequential):  # its `.input` is that of a layer
        return model.inputs[0], model.outputs[0]
    return model.input, model.output


def without_seeds(model: keras.Model) -> list[keras.Variable]:
    """Return the variables of a model without the seeds of its random layers."""
    return [v for v in model.variables if v.name != SEED_NAME]


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
    keys = leaf_names(outputs, top=True)

    def serve(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = tf.nest.pack_sequence_as(input_spec, [inputs[name] for name in specs])
        flat = tf.nest.flatten(call(inputs, training=False))
        return {
            name: x
            for name, key, x in zip(output_names, keys, flat, strict=True)
            if names is None or name in names or key in names
        }

    return tf.function(serve, autograph=False).get_concrete_function(**specs)


def serving_ids(model: keras.Model, names: Collection[str], length: int | None = None) -> Callable:
    """Return a model of named ids `[B, T]` as `serving` does; `length` is T, None: open."""
    spec = input_spec(model)
    if length is not None:
        spec = {name: tf.TensorSpec([None, length], "int32", name) for name in spec}
    return serving(model, spec, model.output, names)


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
