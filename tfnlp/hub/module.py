"""A functional Keras model as a Reusable SavedModel object.

The interface is TF-Hub's: `obj(inputs, training=False)`, `obj.variables`,
`obj.trainable_variables`, `obj.regularization_losses`. Written by `tfnlp.hub.save`, the object
comes back from `tf.saved_model.load` and `hub.load` with nothing but TensorFlow installed, and
trains inside `hub.KerasLayer`.
"""

import tensorflow as tf

from tfnlp.training.randomness import seed_variables, seeded


class KerasModule(tf.__internal__.tracking.AutoTrackable):
    """`model` behind one traced `__call__`.

    Lists of plain `tf.Variable`s are used because properties and Keras objects are not
    serialised. Dropout seeds are drawn inside the call, not kept in variables, so that every
    call and every replica of the user's strategy draws its own.

    Args:
        model: a functional model with a dict of named inputs and a dict of named outputs.
        default: name of the output that `outputs["default"]` repeats, or None.
    """

    def __init__(self, model, default=None):
        super().__init__()
        self._model = Hidden(model)
        self._default = default
        seeds = {id(v) for v in seed_variables(model)}
        self.variables = [v.value for v in model.variables if id(v) not in seeds]
        self.trainable_variables = [v.value for v in model.trainable_variables]
        self.regularization_losses = [
            regularization_loss(v) for v in model.trainable_variables if v.regularizer is not None
        ]
        for training in (False, True):  # every call that a user may make
            self.__call__.get_concrete_function(self.input_spec(), training=training)

    def input_spec(self):
        """Dict of `tf.TensorSpec`, one for each named input."""
        inputs = self._model.value.input
        return {name: tf.TensorSpec(x.shape, x.dtype, name=name) for name, x in inputs.items()}

    @tf.function
    def __call__(self, inputs, training=False):
        model = self._model.value
        if training:
            seed = tf.random.uniform([2], maxval=2**31 - 1, dtype="int32")
            with seeded(model, seed):
                outputs = model(inputs, training=True)
        else:
            outputs = model(inputs, training=False)
        outputs = dict(outputs)
        if self._default is not None:
            outputs["default"] = outputs[self._default]
        return outputs

    def signature(self, names):
        """A concrete function of named tensors for serving, with the outputs called `names`."""

        def serve(**inputs):
            outputs = self.__call__(inputs, training=False)
            return {name: outputs[name] for name in names if name in outputs}

        return tf.function(serve).get_concrete_function(**self.input_spec())


def regularization_loss(variable):
    """What `regularization_losses` lists: a function without arguments, traced."""
    loss = tf.function(lambda: variable.regularizer(variable), input_signature=[])
    loss.get_concrete_function()
    return loss


class Hidden:
    """Keeps a Keras object out of the object graph that SavedModel walks: `Hidden(x).value`."""

    def __init__(self, value):
        self.value = value
