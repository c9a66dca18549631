import keras
import numpy as np
import pytest

from tests.layers.reference import built, layer_norm, weights
from tfnlp.layers import LayerNorm


@pytest.mark.parametrize(
    "shape, epsilon", [((3, 8), 1e-12), ((2, 3, 8), 1e-5), ((2, 3, 4, 8), 0.5)]
)
def test_formula(shape, epsilon):
    layer, rng = built(LayerNorm(epsilon), (None, 8))
    x = (3 * rng.standard_normal(shape) + 1).astype("float32")
    expected = layer_norm(x, weights(layer), epsilon)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mean", [1e2, 1e4])
def test_large_mean_keeps_its_digits(mean):
    layer, rng = built(LayerNorm(), (None, 256))
    x = (mean + rng.standard_normal((4, 256))).astype("float32")
    expected = layer_norm(x, weights(layer), 1e-12)  # of the rounded x
    # float32 has 24 bits: x - mean is known to some mean * 2^-24, times gamma. E[x^2] - E[x]^2
    # would not be right in a single digit at 1e4, where x^2 is rounded to multiples of 8.
    np.testing.assert_allclose(layer(x), expected, atol=max(1e-4, mean * 2**-21))


def test_bf16_policy_computes_in_float32():
    layer, rng = built(LayerNorm(dtype="mixed_bfloat16"), (None, 64))
    x = keras.ops.cast(20 + rng.standard_normal((8, 64)), "bfloat16")
    assert layer.gamma.dtype == layer.beta.dtype == "float32"
    y = layer(x)
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    expected = layer_norm(np.asarray(x).astype("float64"), weights(layer), 1e-12)
    # One rounding to bf16 (2^-9 of the value), at the very end.
    np.testing.assert_allclose(np.asarray(y).astype("float64"), expected, rtol=2**-8, atol=1e-4)
