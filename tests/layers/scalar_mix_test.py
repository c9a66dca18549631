import keras
import numpy as np
import pytest

from tfnlp.layers import ScalarMix

L, B, T, D = 3, 2, 4, 5
MASK = np.array([[1, 1, 1, 1], [1, 0, 1, 0]], bool)
SCALARS, GAMMA = np.array([0.3, -1.2, 2.0]), 1.7


def make(**arguments):
    layer = ScalarMix(L, **arguments)
    layer.build([(B, T, D)] * L)
    layer.scalars.assign(SCALARS)
    layer.gamma.assign(GAMMA)
    return layer


def draw(seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((L, B, T, D)) * 2 + 1).astype("float32")


def reference(layers, normalized=False, mask=None):
    """`gamma sum_j s_j h_j`, one sentence at a time, padding never looked at."""
    s = np.exp(SCALARS) / np.exp(SCALARS).sum()
    mixed = np.zeros((B, T, D))
    for b in range(B):
        real = slice(None) if mask is None else mask[b]
        for j in range(L):
            h = layers[j, b].astype("float64")
            if normalized:
                h = (h - h[real].mean()) / np.sqrt(h[real].var() + 1e-12)
            mixed[b] += GAMMA * s[j] * h
    return mixed


def test_formula():
    layers = draw()
    for mask in (None, MASK):  # a plain mix does not look at it
        got = make()(list(layers), mask=mask)
        np.testing.assert_allclose(got, reference(layers), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mask", [None, MASK])
def test_layer_norm_by_sentence(mask):
    layers = draw(1)
    got = np.asarray(make(layer_norm=True)(list(layers), mask=mask))
    real = np.ones((B, T), bool) if mask is None else mask
    expected = reference(layers, True, mask)
    np.testing.assert_allclose(got[real], expected[real], rtol=1e-5, atol=1e-5)


def test_layer_norm_of_a_row_without_tokens_is_finite():
    mask = np.array([[1, 1, 0, 0], [0, 0, 0, 0]], bool)
    assert np.isfinite(make(layer_norm=True)(list(draw()), mask=mask)[0]).all()
    zeros = np.zeros((L, B, T, D), "float32")
    assert np.isfinite(make(layer_norm=True)(list(zeros), mask=mask)).all()


def test_penalty_is_in_the_losses_of_a_model():
    inputs = [keras.Input((T, D)) for _ in range(L)]
    layer = ScalarMix(L, l2=0.01)
    model = keras.Model(inputs, layer(inputs))
    layer.scalars.assign(SCALARS)
    (loss,) = model.losses
    np.testing.assert_allclose(loss, 0.01 * (SCALARS**2).sum(), rtol=1e-6)
    assert make(l2=0.0).losses == []


def test_mixing_is_float32_under_bf16():
    layers = draw(4)
    layer = ScalarMix(L, dtype="mixed_bfloat16")
    layer.build([(B, T, D)] * L)
    layer.scalars.assign(SCALARS)
    layer.gamma.assign(GAMMA)
    half = [keras.ops.cast(x, "bfloat16") for x in layers]
    got = layer(half)
    assert got.dtype == "bfloat16"
    exact = reference(np.array([keras.ops.convert_to_numpy(x).astype("float32") for x in half]))
    # One rounding at the end, to 8 bits, is all that may be lost.
    np.testing.assert_allclose(np.asarray(got, "float32"), exact, rtol=2**-8, atol=1e-5)
