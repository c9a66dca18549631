"""A module of plain TensorFlow for the tests of `tfnlp.hub.Layer`, and the sums behind it."""

import keras
import numpy as np
import tensorflow as tf

ROWS = np.arange(12, dtype="float32").reshape(6, 2)
SCALE = np.array([[2.0, 1.0], [0.0, 1.0]], "float32")
IDS = np.array([[0, 1, 2], [5, 5, 0]])
WANT = ROWS[IDS].sum(1) @ SCALE
_IDS = tf.TensorSpec([None, None], "int32", name="ids")


class Bag(tf.__internal__.tracking.AutoTrackable):
    """Ids `[B, T]` to the sum of their rows times a matrix, plus 100 in training; a sub-object
    that takes a mask; a penalty of the matrix."""

    def __init__(self):
        super().__init__()
        self.rows = tf.Variable(ROWS, name="bag/rows")
        self.scale = tf.Variable(SCALE, name="bag/scale")
        self.variables = [self.rows, self.scale]
        self.trainable_variables = [self.rows, self.scale]
        self.regularization_losses = [self.penalty]
        self.masked = Masked(self.rows)
        for training in (False, True):
            self.__call__.get_concrete_function(_IDS, training=training)
        self.penalty.get_concrete_function()

    @tf.function
    def __call__(self, ids, training=False):
        return tf.reduce_sum(tf.gather(self.rows, ids), 1) @ self.scale + 100.0 * float(training)

    @tf.function(input_signature=[])
    def penalty(self):
        return 0.5 * tf.reduce_sum(self.scale**2)


class Masked(tf.__internal__.tracking.AutoTrackable):
    def __init__(self, rows):
        super().__init__()
        self.rows = rows
        self.variables = self.trainable_variables = [rows]
        self.__call__.get_concrete_function(_IDS, tf.TensorSpec([None, None], "bool", name="mask"))

    @tf.function
    def __call__(self, ids, mask=None):
        return tf.gather(self.rows, ids) * tf.cast(mask, "float32")[:, :, None]


def functional(layer, dtype="int32"):
    ids = keras.Input((3,), dtype=dtype)
    return keras.Model(ids, layer(ids))
