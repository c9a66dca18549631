"""Dense gradients of a loaded table: what Adam makes of rows that were taken twice."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.hub.bag import IDS, ROWS, SCALE, Bag
from tfnlp import hub


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    path = tmp_path_factory.mktemp("dense") / "bag"
    tf.saved_model.save(Bag(), str(path))
    return path


def gradient_of_rows():
    """Of the mean square of `sum(rows) @ scale + 100`; 5 and 0 are taken more than once."""
    slope = 2 * (ROWS[IDS].sum(1) @ SCALE + 100) / 4 @ SCALE.T
    gradient = np.zeros_like(ROWS)
    for row, ids in zip(slope, IDS, strict=True):
        np.add.at(gradient, ids, row)
    return gradient


@pytest.mark.parametrize("jit, eager", [(False, False), (True, False), (False, True)])
def test_adam_sees_the_sum_of_a_row(bag, jit, eager):
    layer = hub.Layer(bag, trainable=True, freeze="scale")
    ids = keras.Input((3,), dtype="int32")
    model = keras.Model(ids, layer(ids))
    # One step is about rate * g / |g|, which tells g = a + b from a and b.
    rate, epsilon = 0.5, 1e-3
    adam = keras.optimizers.Adam(rate, epsilon=epsilon)
    model.compile(adam, "mse", jit_compile=jit, run_eagerly=eager)
    model.fit(IDS, np.zeros((2, 2)), epochs=1, batch_size=2, verbose=0)
    g = gradient_of_rows()
    first, second = 0.1 * g, 0.001 * g**2
    want = ROWS - rate * np.sqrt(0.001) / 0.1 * first / (np.sqrt(second) + epsilon)
    np.testing.assert_allclose(layer.variables[0], want, rtol=1e-5)


def test_a_tape_gets_a_tensor(bag):
    layer = hub.Layer(bag, trainable=True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(IDS, training=True) ** 2)
    gradient = tape.gradient(loss, layer.variables[0].value)
    assert isinstance(gradient, tf.Tensor)
    np.testing.assert_allclose(gradient, gradient_of_rows(), rtol=1e-5)


def test_what_is_exported_has_them_as_they_were(bag, tmp_path):
    ids = keras.Input((3,), dtype="int32")
    hub.export(keras.Model(ids, hub.Layer(bag, trainable=True)(ids)), tmp_path / "again")
    module = tf.saved_model.load(str(tmp_path / "again"))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(module(tf.constant(IDS, "int32"), training=True) ** 2)
    gradient = tape.gradient(loss, module.trainable_variables[0])
    np.testing.assert_allclose(tf.convert_to_tensor(gradient), gradient_of_rows(), rtol=1e-5)
