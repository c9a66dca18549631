"""A functional Keras model as a Reusable SavedModel object.

The interface is TF-Hub's: `obj(inputs, training=False)`, `obj.variables`,
`obj.trainable_variables`, `obj.regularization_losses`. Written by `tfnlp.hub.saving.save`, the object
comes back from `tf.saved_model.load` and `hub.load` with nothing but TensorFlow installed, and
trains inside `hub.KerasLayer`.
"""

import contextlib

import keras
import tensorflow as tf

from tfnlp.hub.saving.dense_gradients import gradients_as_loaded
from tfnlp.hub.saving.names import argument_names, leaf_names
from tfnlp.hub.saving.resources import resources
from tfnlp.training.randomness import seed_variables, seeded


class KerasModule(tf.__internal__.tracking.AutoTrackable):
    """`model` behind one traced `__call__`, which takes and returns the structures that it does.

    Lists of plain `tf.Variable`s are used because properties and Keras objects are not
    serialised. Dropout seeds are drawn inside the call, not kept in variables, so that every
    call and every replica of the user's strategy draws its own. What else a layer assigns while
    training, such as the moving averages of batch normalization, is assigned by
    `module(x, training=True)`.

    Tables, assets and loaded SavedModels that layers hold go along.

    `regularization_losses` are those of weights, and of SavedModels in trainable layers. What
    layers give to `add_loss`, activity regularizers for instance, depends on the inputs and is
    not among them.

    Args:
        model: a functional or built Sequential model; its inputs and outputs are a dense tensor,
            or lists and dicts of them.
        default: name of the output that `outputs["default"]` repeats, or None.
        weights: `tfnlp.hub.saving.compact.CompactWeights` of this model, or None. With them the module
            computes as in inference even if `training`, and has nothing to train.
    """

    def __init__(self, model, default=None, weights=None):
        super().__init__()
        self._model, self._weights = Hidden(model), Hidden(weights)
        self._default = default
        held = resources(model)
        self._resources = [held_object for _, held_object in held]
        if weights is None:
            self.variables = [v.value for v in without_seeds(model)]
            self.trainable_variables = [v.value for v in model.trainable_variables]
            self.regularization_losses = [
                regularization_loss(v)
                for v in model.trainable_variables
                if v.regularizer is not None
            ]
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
        for training in (False, True):  # every call that a user may make
            call = self.__call__.get_concrete_function(self.input_spec(), training=training)
            if weights is not None:
                weights.check(model, call.graph.variables)
            others.update({id(v): v for v in call.graph.variables if id(v) not in listed})
        # Seeds of dropout that also runs in inference, and variables that Keras knows nothing of.
        self._others = list(others.values())

    def input_spec(self):
        """See `tfnlp.hub.saving.module.input_spec`."""
        return input_spec(self._model.value)

    @tf.function(autograph=False)
    def __call__(self, inputs, training=False):
        model = self._model.value
        if self._weights.value is not None:
            outputs = self._inference(inputs)
        elif training:
            seed = tf.random.uniform([2], maxval=2**31 - 1, dtype="int32")
            with seeded(model, seed), gradients_as_loaded():
                outputs = model(inputs, training=True)
        else:
            outputs = model(inputs, training=False)
        if isinstance(outputs, dict):
            outputs = dict(outputs)
        if self._default is not None:
            outputs["default"] = outputs[self._default]
        return outputs

    @tf.function(autograph=False)
    def _inference(self, inputs):
        # One graph for `training` and not.
        with self.stored_weights():
            return self._model.value(inputs, training=False)

    def stored_weights(self):
        """While this context is open, the model's layers read the `weights` that were given."""
        if self._weights.value is None:
            return contextlib.nullcontext()
        return self._weights.value.scope(self._model.value)

    def outputs(self):
        """Nest of the symbolic outputs."""
        outputs = symbols(self._model.value)[1]
        if self._default is not None:
            outputs = {**outputs, "default": outputs[self._default]}
        return outputs

    def signature(self, names=None):
        """A concrete function of named tensors for serving.

        Args:
            names: those of the outputs to serve that there are, see `tfnlp.hub.saving.names.leaf_names`,
                or of keys of a dict of lists, for all in it; None: all outputs.
        """
        return serving(self.__call__, self.input_spec(), self.outputs(), names)


def symbols(model):
    """The symbolic inputs and outputs of a model, in the structure of its calls."""
    if isinstance(model, keras.Sequential):  # whose `.input` is that of a layer
        return model.inputs[0], model.outputs[0]
    return model.input, model.output


def without_seeds(model):
    """The variables of a model but for the seeds of its random layers."""
    seeds = {id(v) for v in seed_variables(model)}
    return [v for v in model.variables if id(v) not in seeds]


def input_spec(model):
    """`tf.TensorSpec` of the one input, or the list or dict of them that a model takes, named."""
    inputs, _ = symbols(model)
    open_batch = isinstance(model, keras.Sequential)  # it may be that of the first batch it saw

    def spec(x, name):
        shape = (None, *x.shape[1:]) if open_batch else x.shape
        return tf.TensorSpec(shape, x.dtype, name=name)

    names = argument_names(leaf_names(inputs))
    specs = [spec(x, name) for x, name in zip(tf.nest.flatten(inputs), names, strict=True)]
    return tf.nest.pack_sequence_as(inputs, specs)


def serving(call, input_spec, outputs, names=None):
    """A concrete function of named tensors to a dict of them, of `call(inputs, training=False)`.

    Args:
        call: what is served.
        input_spec: nest of `tf.TensorSpec`s with names.
        outputs: nest of the symbolic outputs.
        names: see `KerasModule.signature`.
    """
    specs = {spec.name: spec for spec in tf.nest.flatten(input_spec)}
    output_names = leaf_names(outputs)
    keys = leaf_names(outputs, top=True)

    def serve(**inputs):
        inputs = tf.nest.pack_sequence_as(input_spec, [inputs[name] for name in specs])
        flat = tf.nest.flatten(call(inputs, training=False))
        return {
            name: x
            for name, key, x in zip(output_names, keys, flat, strict=True)
            if names is None or name in names or key in names
        }

    return tf.function(serve, autograph=False).get_concrete_function(**specs)


def regularization_loss(variable):
    """What `regularization_losses` lists: a function without arguments, traced."""
    loss = tf.function(lambda: variable.regularizer(variable), input_signature=[], autograph=False)
    loss.get_concrete_function()
    return loss


class Hidden:
    """Keeps a Keras object out of the object graph that SavedModel walks: `Hidden(x).value`."""

    def __init__(self, value):
        self.value = value
