"""SavedModels as they come from other people's code, each with the original that wrote it.

What a maker returns (an `Original`) computes in the framework that it was made with, and knows
nothing of the SavedModel: tests compare what they loaded with it.
"""

import dataclasses
import typing

import keras
import numpy as np
import tensorflow as tf
import tensorflow_hub  # it brings tf_keras
import tf_keras

from tfnlp import hub

LIBRARIES = {"tf_keras": (tf_keras, tensorflow_hub.KerasLayer), "keras": (keras, hub.Layer)}
ROWS = 8  # of `Original.inputs`


@dataclasses.dataclass
class Original:
    """`call(inputs, training)`, the variables and the penalties of what was saved at `path`."""

    path: str
    call: typing.Callable
    variables: list
    trainable_variables: list
    penalty: typing.Callable
    inputs: object

    def values(self):
        return [v.numpy() for v in self.variables]


def _normal(*shape, seed):
    return np.random.default_rng(seed).normal(0, 0.5, shape).astype("float32")


# --- Plain TensorFlow


class Plain(tf.__internal__.tracking.AutoTrackable):
    """Two inputs `[B, 4]` in a list, or one; a moving mean by hand; a penalty."""

    def __init__(self, inputs):
        super().__init__()
        self.kernels = [
            tf.Variable(_normal(4, 3, seed=i), name=f"tower_{i}/kernel") for i in range(inputs)
        ]
        self.mean = tf.Variable(tf.zeros(3), trainable=False, name="mean")
        self.unused = tf.Variable(_normal(2, seed=9), name="unused/kernel")
        # As lists of a plain object: a tf.Module's own are properties, which are not saved.
        self.variables = [*self.kernels, self.mean, self.unused]
        self.trainable_variables = [*self.kernels, self.unused]
        self.regularization_losses = [
            tf.function(lambda: 0.1 * tf.reduce_sum(self.kernels[0] ** 2), input_signature=[]),
            tf.function(lambda: 0.2 * tf.reduce_sum(tf.abs(self.unused)), input_signature=[]),
        ]
        spec = [tf.TensorSpec([None, 4], "float32", name=f"in_{i}") for i in range(inputs)]
        for training in (False, True):
            self.__call__.get_concrete_function(spec if inputs > 1 else spec[0], training=training)

    @tf.function
    def __call__(self, inputs, training=False):
        inputs = inputs if isinstance(inputs, list) else [inputs]
        x = tf.add_n([tf.matmul(x, w) for x, w in zip(inputs, self.kernels, strict=True)])
        if not training:
            return tf.tanh(x - self.mean)
        mean = tf.reduce_mean(x, axis=0)
        self.mean.assign(0.8 * self.mean + 0.2 * mean)
        return tf.tanh(x - mean)

    def penalty(self):
        return tf.add_n([loss() for loss in self.regularization_losses])


def plain(path, inputs=1):
    module = Plain(inputs)
    tf.saved_model.save(module, path)
    data = [_normal(ROWS, 4, seed=20 + i) for i in range(inputs)]
    return Original(
        path,
        module,
        module.variables,
        module.trainable_variables,
        module.penalty,
        data if inputs > 1 else data[0],
    )


# --- Keras 2


def _layers():
    k = tf_keras
    x = k.Input((4,), name="x")
    h = k.layers.Dense(5, "tanh", kernel_regularizer=k.regularizers.L2(0.1), name="first")(x)
    h = k.layers.BatchNormalization(momentum=0.8, name="norm")(h)
    model = k.Model(x, k.layers.Dense(3, name="last")(h))
    model.set_weights(
        [
            np.abs(_normal(*w.shape, seed=i)) + 0.5 if i == 5 else _normal(*w.shape, seed=i)
            for i, w in enumerate(model.get_weights())
        ]
    )  # 5 is the moving variance
    return model


def keras_2(path):
    """tf_keras's `model.save` in TensorFlow's format."""
    model = _layers()
    model.save(path, save_format="tf")
    return Original(
        path,
        lambda x, training: model(x, training=training),
        model.variables,
        model.trainable_variables,
        lambda: tf.add_n(model.losses),
        _normal(ROWS, 4, seed=20),
    )
