import numpy as np
import pytest
import tensorflow as tf

from tests.layers.gradients import gradients
from tfnlp.layers import Dropout


def mask(rate, shape, seed=7, dtype="float32"):
    """True where an element was kept."""
    layer = Dropout(rate, seed=seed, dtype=dtype)
    return np.asarray(layer(np.ones(shape, "float32"), training=True), "float32")


@pytest.mark.parametrize("rate, dtype", [(0.1, "float32"), (0.25, "bfloat16"), (0.5, "float32")])
def test_rate_and_scale(rate, dtype):
    y = mask(rate, (1000, 1000), dtype=dtype)
    dropped = (y == 0).mean()
    assert abs(dropped - rate) < 5 * np.sqrt(rate * (1 - rate) / y.size)  # five standard errors
    np.testing.assert_allclose(y[y > 0], 1 / (1 - rate), rtol=4e-3 if dtype == "bfloat16" else 1e-4)


def test_elements_rows_and_columns_are_independent():
    # Correlation of the mask with itself, shifted along the flat order and along the table that
    # it is cut from (1,024 elements a row), against five standard errors of independent coins.
    kept = (mask(0.5, (1024, 1024)) > 0).astype("float64").ravel() * 2 - 1
    for shift in (1, 2, 3, 7, 512, 1023, 1024, 1025, 2048, 4096, 65536):
        assert abs((kept[shift:] * kept[:-shift]).mean()) < 5 / np.sqrt(kept.size - shift)
    # Four corners of a rectangle: a plain xor of row and column numbers would fail here.
    table = kept.reshape(-1, 1024)
    for row, column in ((1, 1), (1, 2), (3, 64), (100, 511)):
        corners = table[:-row, :-column] * table[row:, :-column]
        corners = corners * table[:-row, column:] * table[row:, column:]
        assert abs(corners.mean()) < 5 / np.sqrt(corners.size)
    for axis in (0, 1):
        size = table.shape[axis]
        assert np.abs(table.mean(axis)).max() < 5.5 / np.sqrt(size)


def test_every_call_draws_anew_and_the_seed_decides():
    layer = Dropout(0.5, seed=7)
    x = np.ones((64, 64), "float32")
    first, second = (np.asarray(layer(x, training=True)) for _ in range(2))
    assert 0.4 < (first == second).mean() < 0.6
    np.testing.assert_array_equal(first, mask(0.5, (64, 64)))
    assert 0.4 < (first == mask(0.5, (64, 64), seed=8)).mean() < 0.6


def test_gradient_passes_where_the_value_does():
    layer = Dropout(0.3, seed=1)
    x = tf.random.stateless_normal((40, 50), (1, 2))
    y, (gradient,) = gradients(lambda: layer(x, training=True), [x])
    np.testing.assert_allclose(gradient, y / x, rtol=1e-5)


def test_compiled_draws_the_same_mask():
    x = tf.ones((33, 65))
    eager = Dropout(0.1, seed=5)(x, training=True)
    layer = Dropout(0.1, seed=5)
    compiled = tf.function(lambda x: layer(x, training=True), jit_compile=True)(x)
    np.testing.assert_array_equal(eager, compiled)


def test_off_at_inference_and_at_rate_zero():
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    np.testing.assert_array_equal(Dropout(0.5)(x), x)
    np.testing.assert_array_equal(Dropout(0.0)(x, training=True), x)
    assert Dropout(0.0).variables == [] and len(Dropout(0.1).variables) == 1
