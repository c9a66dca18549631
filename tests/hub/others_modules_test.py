"""Modules that other people's code wrote, in `hub.Layer`: against the objects that they were
written from, trained in their own framework."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.hub import makers
from tfnlp import hub

pytestmark = pytest.mark.slow

MAKERS = {
    "plain TensorFlow": lambda path: makers.plain(path, inputs=2),
    "tf_keras save": makers.keras_2,
}
RATE, STEPS, ROWS = 0.05, 3, makers.ROWS
TARGETS = np.random.default_rng(1).normal(0, 1, (ROWS, 1)).astype("float32")
KERNEL = np.random.default_rng(2).normal(0, 1, (3, 1)).astype("float32")
CLOSE = dict(rtol=1e-5, atol=2e-6)


def trained_by_hand(original):
    """`STEPS` steps of SGD on squares and penalties, with a tape around the original."""
    head = [tf.Variable(KERNEL), tf.Variable([0.1])]

    def predict(training):
        return original.call(original.inputs, training) @ head[0] + head[1]

    start = types.SimpleNamespace(values=original.values(), outputs=predict(False).numpy())
    start.penalty, losses = float(original.penalty()), []
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((predict(True) - TARGETS) ** 2) + original.penalty()
        variables = [*original.trainable_variables, *head]
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(RATE * tf.convert_to_tensor(gradient))
        losses.append(float(loss))
    end = types.SimpleNamespace(
        values=original.values(),
        outputs=predict(False).numpy(),
        head=[v.numpy() for v in head],
        losses=losses,
    )
    return start, end


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """`made(name)`: the original, and what it was before and after training. Made when asked."""
    folder, known = tmp_path_factory.mktemp("modules"), {}

    def make(name):
        if name not in known:
            original = MAKERS[name](str(folder / name.replace(" ", "_")))
            known[name] = original, *trained_by_hand(original)
        return known[name]

    return make


def with_head(k, layer, style, inputs):
    """A model of one output on top of `layer`, from the head that all start with."""
    dense = k.layers.Dense(1, name="head")
    if style == "subclassed":

        class Subclassed(k.Model):
            def __init__(self):
                super().__init__()
                self.layer, self.dense = layer, dense

            def call(self, x, training=False):  # which Keras hands on to the layer by itself
                return self.dense(self.layer(x))

        model = Subclassed()
        model(inputs)
    else:
        x = tf.nest.map_structure(lambda x: k.Input(x.shape[1:], dtype=x.dtype.name), inputs)
        model = k.Model(x, dense(layer(x)))
    dense.set_weights([KERNEL, np.array([0.1], "float32")])
    return model, dense


def fit(k, model, original):
    inputs = tuple(original.inputs) if isinstance(original.inputs, list) else original.inputs
    batches = tf.data.Dataset.from_tensor_slices((inputs, TARGETS)).batch(ROWS)
    model.compile(k.optimizers.SGD(RATE), "mse")
    return model.fit(batches, epochs=STEPS, verbose=0).history["loss"]


def values(layer):
    return [v.numpy().copy() for v in layer.resolved_object.variables]


def assert_close(got, want):
    assert len(got) == len(want)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        np.testing.assert_allclose(a, b, **CLOSE, err_msg=f"number {i}")


STYLES = [*((name, "functional") for name in MAKERS), ("tf_keras save", "subclassed")]


@pytest.mark.parametrize("name, style", STYLES)
def test_it_trains_as_its_original_does(made, name, style):
    original, start, end = made(name)
    layer = hub.Layer(original.path, trainable=True)
    assert_close(values(layer), start.values)
    model, dense = with_head(keras, layer, style, original.inputs)
    np.testing.assert_allclose(model(original.inputs), start.outputs, **CLOSE)
    np.testing.assert_allclose(sum(model.losses) if model.losses else 0, start.penalty, rtol=1e-5)
    assert len(model.trainable_variables) == len(original.trainable_variables) + 2
    losses = fit(keras, model, original)
    np.testing.assert_allclose(losses, end.losses, rtol=1e-5)
    assert_close(values(layer), end.values)  # moving averages among them
    assert_close(dense.get_weights(), end.head)
    np.testing.assert_allclose(model(original.inputs), end.outputs, **CLOSE)


@pytest.mark.parametrize("name", ["plain TensorFlow", "tf_keras save"])
def test_moving_averages_move_in_training_alone(made, name):
    original, start, end = made(name)
    (index,) = [i for i, v in enumerate(original.variables) if "mean" in v.name]
    assert np.abs(end.values[index] - start.values[index]).max() > 1e-2
    for trainable, training in ((True, False), (False, True)):
        layer = hub.Layer(original.path, trainable=trainable)
        layer(original.inputs, training=training)
        np.testing.assert_array_equal(values(layer)[index], start.values[index])
