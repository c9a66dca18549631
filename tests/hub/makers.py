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
WORDS = ["the", "a", "cat", "dog", "sat", "ran", "good", "bad", "film", "."]
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


class TextEmbedding(tf.__internal__.tracking.AutoTrackable):
    """Strings `[B]` to `[B, 3]`: the words' vectors, summed and divided by the root of their
    number; words that the file lacks share two vectors. It takes no `training`."""

    def __init__(self, file):
        super().__init__()
        initializer = tf.lookup.TextFileInitializer(
            file, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )  # fmt: skip
        self._words = tf.lookup.StaticVocabularyTable(initializer, num_oov_buckets=2)
        rows = _normal(len(WORDS) + 2, 3, seed=3)
        self.embeddings = tf.Variable(rows, name="embeddings")
        self.variables = self.trainable_variables = [self.embeddings]
        self.__call__.get_concrete_function(tf.TensorSpec([None], "string", name="sentences"))

    @tf.function
    def __call__(self, sentences):
        ids = tf.ragged.map_flat_values(self._words.lookup, tf.strings.split(sentences))
        total = tf.reduce_sum(tf.gather(self.embeddings, ids), axis=1)
        count = tf.cast(ids.row_lengths(), "float32")[:, None]
        return tf.math.divide_no_nan(total, tf.sqrt(count))


def text_embedding(path):
    file = f"{path}.txt"
    with open(file, "w") as lines:
        lines.write("\n".join(WORDS))
    module = TextEmbedding(file)
    tf.saved_model.save(module, path)
    data = ["the cat sat", "zebra", "", "a film a film", "good good dog", "bad", "yak ran", "."]
    return Original(
        path,
        lambda x, training: module(x),
        module.variables,
        module.trainable_variables,
        lambda: 0.0,
        tf.constant(data),
    )


# --- Keras 2 and Keras 3


def _layers(k):
    """The same functional model in `k`, `tf_keras` or `keras`, from the same weights."""
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


def _of_keras(path, model, call=None, penalized=True):
    return Original(
        path,
        call or (lambda x, training: model(x, training=training)),
        model.variables,
        model.trainable_variables,
        (lambda: tf.add_n(model.losses)) if penalized else (lambda: 0.0),
        _normal(ROWS, 4, seed=20),
    )


def keras_2(path):
    """tf_keras's `model.save` in TensorFlow's format."""
    model = _layers(tf_keras)
    model.save(path, save_format="tf")
    return _of_keras(path, model)


def export_archive(path):
    """Keras 3's `ExportArchive`: callable, for inference alone, without penalties."""
    model = _layers(keras)
    archive = keras.export.ExportArchive()
    archive.track(model)
    spec = [tf.TensorSpec((None, 4), "float32", name="x")]
    archive.add_endpoint("__call__", lambda x: model(x, training=False), input_signature=spec)
    archive.write_out(path, verbose=False)
    return _of_keras(path, model, lambda x, training: model(x, training=False), False)
