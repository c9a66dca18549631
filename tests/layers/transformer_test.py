import numpy as np
import pytest

from tests.layers import reference
from tests.layers.reference import block, block_and_map, weights
from tfnlp.layers import TransformerBlock

B, T, H, N, F, S, C = 2, 5, 8, 2, 12, 4, 6
SHAPES = (B, T, H), (B, S, C)
MASK = np.array([[1, 1, 0, 1, 0], [1, 1, 1, 0, 0]], bool)
CLOSE = dict(rtol=1e-4, atol=1e-4)


def built(**kwargs):
    layer = TransformerBlock(N, F, **{"norm_epsilon": 1e-5, **kwargs})
    layer, rng = reference.built(layer, (B, T, H), seed=11)
    return layer, rng.standard_normal((B, T, H)).astype("float32")


def zero(dense_layer):
    for variable in dense_layer.weights:
        variable.assign(np.zeros(variable.shape))


@pytest.mark.parametrize(
    "norm_first, activation, causal, masked, epsilon",
    [
        (False, "gelu", False, True, 1e-5),
        (False, "gelu_tanh", True, False, 0.7),
        (True, "gelu_tanh", False, False, 0.7),
        (True, "relu", True, True, 1e-5),
    ],
)
def test_formula(norm_first, activation, causal, masked, epsilon):
    kind = dict(norm_first=norm_first, activation=activation, causal=causal)
    layer, x = built(**kind, norm_epsilon=epsilon)
    mask = MASK if masked else None
    expected = block_and_map(x, weights(layer), N, epsilon=epsilon, mask=mask, **kind)
    for got, want in zip(layer(x, mask=mask, return_scores=True), expected, strict=True):
        np.testing.assert_allclose(got, want, **CLOSE)
    np.testing.assert_allclose(layer(x, mask=mask), expected[0], **CLOSE)


@pytest.mark.parametrize("rates", [{"dropout": 0.0}, {"attention_dropout": 0.0}])
def test_each_dropout_rate_alone(rates):
    layer, x = built(**rates)
    assert np.abs(layer(x, training=True) - layer(x)).max() > 1e-2
    none, x = built(dropout=0.0, attention_dropout=0.0)
    np.testing.assert_allclose(none(x, training=True), none(x), atol=1e-5)


@pytest.mark.parametrize("silent", ["attention", "feed-forward"])
def test_dropout_falls_on_what_a_sub_layer_adds(silent):
    layer, _ = built(norm_first=True, dropout=0.25, attention_dropout=0.0)
    x = np.random.default_rng(0).standard_normal((200, T, H)).astype("float32")
    zero(layer.output_dense if silent == "feed-forward" else layer.attention.output_dense)
    added = np.asarray(layer(x, training=True)) - x  # what the other sub-layer adds
    whole = block(x, weights(layer), N, norm_first=True, epsilon=1e-5) - x
    dropped = np.abs(added) < 1e-6
    assert 0.22 < dropped.mean() < 0.28  # 8,000 draws: 0.25 +- 6 standard errors of 0.005
    np.testing.assert_allclose(added[~dropped], whole[~dropped] / 0.75, rtol=1e-3, atol=1e-4)


def crossed(**kwargs):
    """A causal block with a context of another width, its inputs, its context."""
    layer = TransformerBlock(N, F, causal=True, **{"norm_epsilon": 1e-5, **kwargs})
    layer, rng = reference.built(layer, (B, T, H), (B, S, C), seed=12)
    inputs, context = (rng.standard_normal(shape).astype("float32") for shape in SHAPES)
    return layer, inputs, context


@pytest.mark.parametrize("norm_first, masked", [(False, True), (True, False)])
def test_formula_with_a_context(norm_first, masked):
    layer, x, context = crossed(norm_first=norm_first, activation="relu")
    mask = MASK[:, :S] if masked else None
    expected, expected_scores = block_and_map(
        x, weights(layer), N, context, mask,
        norm_first=norm_first, activation="relu", epsilon=1e-5,
    )  # fmt: skip
    got, scores = layer(x, context=context, context_mask=mask, return_scores=True)
    np.testing.assert_allclose(got, expected, **CLOSE)
    np.testing.assert_allclose(scores, expected_scores, **CLOSE)
    np.testing.assert_array_equal(layer(x, context=context, context_mask=mask), got)


def test_the_third_sub_layer_has_its_own_dropout():
    layer, x, context = crossed(norm_first=True, attention_dropout=0.0)
    zero(layer.attention.output_dense)
    zero(layer.output_dense)
    added = np.asarray(layer(x, context=context, training=True)) - x
    whole = np.asarray(layer(x, context=context)) - x
    dropped = np.abs(added) < 1e-6
    assert 0 < dropped.sum() < dropped.size / 2
    np.testing.assert_allclose(added[~dropped], whole[~dropped] / 0.9, rtol=1e-3, atol=1e-4)
