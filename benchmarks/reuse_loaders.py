"""The ways to use a SavedModel that `benchmarks.reuse` compares.

Each is a class with `infer(path, sub, inputs)`, which returns the outputs, and
`train(path, sub, key, inputs, strategy)`, which returns the weights after the steps of
`benchmarks.reuse_modules`; `sub` names a sub-object of the module, or is None.
"""

import keras
import tensorflow as tf
import tensorflow_hub
import tf_keras

from benchmarks.reuse_modules import EPSILON, RATE, batches, compiled, fit, symbols
from tfnlp import hub


class Plain:
    """`load(path)`, a tape, and an optimizer in `strategy.run`: how TensorFlow is used alone."""

    load = staticmethod(tf.saved_model.load)

    def infer(self, path, sub, inputs):
        return _member(self.load(path), sub)(inputs)

    def train(self, path, sub, key, inputs, strategy):
        with strategy.scope():
            module = _member(self.load(path), sub)
            optimizer = tf_keras.optimizers.legacy.Adam(RATE, epsilon=EPSILON)
        return _loop(
            strategy,
            batches(inputs, module(inputs)[key].shape),
            lambda x: module(x, training=True)[key],
            lambda: [f() for f in module.regularization_losses],
            module.trainable_variables,
            lambda pairs: optimizer.apply_gradients(pairs),
        )


class HubLoad(Plain):
    """The same with `tensorflow_hub.load`."""

    load = staticmethod(tensorflow_hub.load)


class KerasLayer:
    """`hub.KerasLayer` in a functional model of tf_keras, which is Keras 2."""

    library, layer = tf_keras, tensorflow_hub.KerasLayer

    def handle(self, path, sub):
        return getattr(tensorflow_hub.load(path), sub) if sub else path

    def make(self, path, sub, inputs, trainable):
        taken = symbols(self.library, inputs)
        layer = self.layer(self.handle(path, sub), trainable=trainable)
        return self.library.Model(taken, layer(taken)), layer

    def infer(self, path, sub, inputs):
        return self.make(path, sub, inputs, False)[0](inputs)

    def train(self, path, sub, key, inputs, strategy):
        with strategy.scope():
            model, layer = self.make(path, sub, inputs, True)
            part = compiled(self.library, model, key)
        fit(part, inputs)
        return _values(layer.resolved_object.trainable_variables)


class KerasLayerInKeras3(KerasLayer):
    """`hub.KerasLayer` in a functional model of Keras 3."""

    library = keras


class KerasLayerSubclassed:
    """`hub.KerasLayer` in a subclassed model of Keras 3."""

    def infer(self, path, sub, inputs):
        return Subclassed(KerasLayer().handle(path, sub), None)(inputs)

    def train(self, path, sub, key, inputs, strategy):
        with strategy.scope():
            model = Subclassed(KerasLayer().handle(path, sub), key)
            model.compile(keras.optimizers.Adam(RATE, epsilon=EPSILON), "mse")
        fit(model, inputs)
        return _values(model.layer.resolved_object.trainable_variables)


class Subclassed(keras.Model):
    def __init__(self, handle, key):
        super().__init__()
        self.layer, self.key = tensorflow_hub.KerasLayer(handle, trainable=key is not None), key

    def call(self, inputs, training=False):
        outputs = self.layer(inputs, training=training)
        return outputs if self.key is None else outputs[self.key]


class TFSMLayer(KerasLayer):
    """`keras.layers.TFSMLayer` in a functional model of Keras 3."""

    library = keras

    def make(self, path, sub, inputs, trainable):
        taken = symbols(keras, inputs)
        layer = keras.layers.TFSMLayer(path, call_endpoint=sub or "__call__")
        layer.trainable = trainable
        return keras.Model(taken, layer(taken)), layer

    def train(self, path, sub, key, inputs, strategy):
        with strategy.scope():
            model, layer = self.make(path, sub, inputs, True)
            part = compiled(keras, model, key)
        fit(part, inputs)
        return _values(layer.trainable_variables)


class Layer(KerasLayer):
    """`tfnlp.hub.Layer` in a functional model of Keras 3, with Keras's own `fit` where that can go:
    not on several workers, nor on several replicas with strings, which it adds up to see their
    shape. There in a loop around `strategy.run`."""

    library, layer = keras, hub.Layer

    def train(self, path, sub, key, inputs, strategy):
        several = strategy.num_replicas_in_sync > 1
        strings = any(x.dtype == tf.string for x in inputs.values())
        workers = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        if not workers and not (several and strings):
            return super().train(path, sub, key, inputs, strategy)
        with strategy.scope():
            model, layer = self.make(path, sub, inputs, True)
            optimizer = keras.optimizers.Adam(RATE, epsilon=EPSILON)
            optimizer.build(model.trainable_variables)
        return _loop(
            strategy,
            batches(inputs, model(inputs)[key].shape),
            lambda x: model(x, training=True)[key],
            lambda: model.losses,
            [v.value for v in model.trainable_variables],
            lambda pairs: optimizer.apply([g for g, _ in pairs], model.trainable_variables),
        )


LOADERS = {
    "tf.saved_model.load": Plain,
    "tensorflow_hub.load": HubLoad,
    "hub.KerasLayer, tf_keras": KerasLayer,
    "hub.KerasLayer, Keras 3 functional": KerasLayerInKeras3,
    "hub.KerasLayer, Keras 3 subclassed": KerasLayerSubclassed,
    "keras.layers.TFSMLayer, Keras 3": TFSMLayer,
    "tfnlp.hub.Layer, Keras 3": Layer,
}


def _member(module, sub):
    if not sub:
        return module
    member = getattr(module, sub)
    member.keeps = module  # a sub-object alone does not keep what it was loaded with
    return member


def _loop(strategy, data, output, penalties, variables, apply):
    replicas = strategy.num_replicas_in_sync
    if replicas > 1:
        data = strategy.experimental_distribute_dataset(data)

    def replica(inputs, zeros):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(output(inputs) - zeros))
            loss = (loss + sum(penalties())) / replicas
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        apply(list(zip(gradients, variables, strict=True)))

    @tf.function
    def step(batch):
        strategy.run(replica, args=batch)

    for batch in data:
        step(batch)
    return _values(variables)


def _values(variables):
    return [v.numpy() for v in variables]
