"""A module that Keras 2 wrote, in `hub.Layer`: against the model, trained in its own framework."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfnlp import hub

pytestmark = pytest.mark.slow

RATE, STEPS, ROWS = 0.05, 3, 8
CLOSE = dict(rtol=1e-5, atol=2e-6)


def normal(*shape, seed):
    return np.random.default_rng(seed).normal(0, 0.5, shape).astype("float32")


INPUTS, TARGETS, KERNEL = normal(ROWS, 4, seed=20), normal(ROWS, 1, seed=21), normal(3, 1, seed=22)


def keras_2():
    k = tf_keras
    x = k.Input((4,), name="x")
    h = k.layers.Dense(5, "tanh", kernel_regularizer=k.regularizers.L2(0.1), name="first")(x)
    h = k.layers.BatchNormalization(momentum=0.8, name="norm")(h)
    model = k.Model(x, k.layers.Dense(3, name="last")(h))
    values = [normal(*w.shape, seed=i) for i, w in enumerate(model.get_weights())]
    values[5] = np.abs(values[5]) + 0.5  # the moving variance
    model.set_weights(values)
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The path, and the model before and after steps of SGD on squares and penalties."""
    path, original = str(tmp_path_factory.mktemp("modules") / "saved"), keras_2()
    original.save(path, save_format="tf")
    head = [tf.Variable(KERNEL), tf.Variable([0.1])]

    def predict(training):
        return original(INPUTS, training=training) @ head[0] + head[1]

    def state(losses=()):
        penalty = float(tf.add_n(original.losses))
        return types.SimpleNamespace(
            values=[v.numpy() for v in original.variables],
            outputs=predict(False).numpy(),
            head=[v.numpy() for v in head],
            penalty=penalty,
            losses=losses,
        )

    start, losses = state(), []
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((predict(True) - TARGETS) ** 2) + tf.add_n(original.losses)
        variables = [*original.trainable_variables, *head]
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(RATE * tf.convert_to_tensor(gradient))
        losses.append(float(loss))
    return path, original, start, state(losses)


def with_head(layer):
    """A model of one output on top of `layer`, from the head of the original."""
    dense, x = keras.layers.Dense(1, name="head"), keras.Input((4,))
    model = keras.Model(x, dense(layer(x)))
    dense.set_weights([KERNEL, np.array([0.1], "float32")])
    return model, dense


def values(layer):
    return [v.numpy().copy() for v in layer.resolved_object.variables]


def assert_close(got, want):
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        np.testing.assert_allclose(a, b, **CLOSE, err_msg=f"number {i}")


def test_it_trains_as_its_original_does(saved):
    path, original, start, end = saved
    layer = hub.Layer(path, trainable=True)
    assert_close(values(layer), start.values)
    model, dense = with_head(layer)
    np.testing.assert_allclose(model(INPUTS), start.outputs, **CLOSE)
    np.testing.assert_allclose(sum(model.losses), start.penalty, rtol=1e-5)
    assert len(model.trainable_variables) == len(original.trainable_variables) + 2
    model.compile(keras.optimizers.SGD(RATE), "mse")
    losses = model.fit(INPUTS, TARGETS, batch_size=ROWS, epochs=STEPS, verbose=0).history["loss"]
    np.testing.assert_allclose(losses, end.losses, rtol=1e-5)
    assert_close(values(layer), end.values)  # moving averages among them
    assert_close(dense.get_weights(), end.head)
    np.testing.assert_allclose(model(INPUTS), end.outputs, **CLOSE)
