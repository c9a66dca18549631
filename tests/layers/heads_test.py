import numpy as np
import pytest
import tensorflow as tf

from tests.layers.reference import built, dense, inside, masked_lm_head, weights
from tfnlp.layers import LogitBias, MaskedLMHead, NextSentenceHead

B, T, H, P = 3, 5, 8, 4
CLOSE = dict(rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "activation, epsilon, units",
    [("gelu", 1e-12, None), ("gelu_tanh", 0.3, None), ("relu", 1e-12, 5)],
)
def test_masked_lm_head_gathers_then_transforms(activation, epsilon, units):
    layer, rng = built(MaskedLMHead(activation, epsilon, units=units), (B, T, H), (B, P))
    x = rng.standard_normal((B, T, H)).astype("float32")
    positions = np.array([[0, 4, 2, 2], [3, 1, 0, 0], [4, 4, 4, 4]], "int32")  # repeats, no order
    expected = masked_lm_head(x, positions, weights(layer), activation, epsilon)
    np.testing.assert_allclose(layer(x, positions), expected, **CLOSE)
    np.testing.assert_allclose(layer(x, positions.astype("int64")), expected, **CLOSE)


@pytest.mark.parametrize("shape, policy", [((B, T, H), "float32"), ((B, H), "mixed_bfloat16")])
def test_logit_bias(shape, policy):
    layer, rng = built(LogitBias(dtype=policy), shape)
    x = rng.standard_normal(shape).astype("float32")
    np.testing.assert_allclose(layer(x), x + layer.bias.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(LogitBias()(x), x)  # starts at zero


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_next_sentence_head(policy):
    layer, rng = built(NextSentenceHead(dtype=policy), (B, H))
    # Numbers that bf16 holds exactly: the layer may round its input, never its weights.
    x = rng.integers(-8, 8, (B, H)).astype("float32")
    got = layer(x)
    assert got.dtype == tf.float32 and got.shape == (B, 2)
    expected = dense(x.astype("float64"), inside(weights(layer), "dense"))
    np.testing.assert_allclose(got, expected, **CLOSE)
