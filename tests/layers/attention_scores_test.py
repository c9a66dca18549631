import numpy as np
import pytest
import tensorflow as tf

from tests.layers.gradients import gradients
from tests.layers.reference import randomize, weights
from tfnlp.layers import (
    AdditiveAttention,
    AttentionLSTM,
    CosineAttention,
    DotAttention,
    GeneralAttention,
)

B, T, S, Q, K = 3, 4, 5, 6, 7
MASK = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [0, 0, 0, 1, 0]], bool)


def additive(q, k, w):
    return w["vector"] @ np.tanh(q @ w["query_kernel"] + k @ w["key_kernel"])


def dot(q, k, w):
    return q @ k


def general(q, k, w):
    return q @ w["kernel"] @ k


def cosine(q, k, w):
    return w["scale"] * (q @ k) / np.sqrt((q @ q) * (k @ k))


CASES = {
    "additive": (AdditiveAttention, {}, additive, K),
    "additive-units": (AdditiveAttention, {"units": 9}, additive, K),
    "dot": (DotAttention, {}, dot, Q),
    "general": (GeneralAttention, {}, general, K),
    "cosine": (CosineAttention, {"scale": 2.0}, cosine, Q),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def attend(queries, keys, score, w, mask):
    """One query and one key after the other; what is hidden takes no part."""
    contexts = np.zeros((*queries.shape[:2], keys.shape[-1]))
    found = np.zeros((*queries.shape[:2], keys.shape[1]))
    for b in range(len(queries)):
        real = np.flatnonzero(mask[b])
        for t, q in enumerate(queries[b]):
            energy = np.exp([score(q, keys[b, s], w) for s in real])
            found[b, t, real] = energy / energy.sum()
            contexts[b, t] = sum(found[b, t, s] * keys[b, s] for s in real)
    return contexts, found


def made(case, seed=0, **kwargs):
    layer_class, arguments, score, width = case
    rng = np.random.default_rng(seed)
    queries = rng.standard_normal((B, T, Q)).astype("float32")
    keys = rng.standard_normal((B, S, width)).astype("float32")
    layer = layer_class(**arguments, **kwargs)
    layer.build(queries.shape, keys.shape)
    randomize(layer, rng, 0.8)
    return layer, score, queries, keys


@cases
@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
def test_formula(case, mask):
    layer, score, queries, keys = made(case)
    context, found = layer(queries, keys, mask=mask)
    shown = np.ones((B, S), bool) if mask is None else mask
    wide = [x.astype("float64") for x in (queries, keys)]
    want_context, want = attend(*wide, score, weights(layer), shown)
    assert np.ptp(want[0], axis=-1).max() > 0.05  # or all scores would do
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(context, want_context, rtol=1e-5, atol=1e-5)
    known = layer.project_keys(tf.constant(keys))  # one query with keys that are projected before
    context, found = layer(queries[:, 1:2], keys, mask=mask, projected_keys=known)
    np.testing.assert_allclose(found[:, 0], want[:, 1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(context[:, 0], want_context[:, 1], rtol=1e-5, atol=1e-5)


def test_a_source_without_real_tokens_gives_no_nan():
    layer, _, queries, keys = made(CASES["cosine"])
    assert np.isfinite(layer(queries, keys, mask=np.zeros((B, S), bool))[0]).all()


def test_cosine_of_zeros_is_zero():
    layer, _, queries, keys = made(CASES["cosine"])
    assert not np.any(layer(0 * queries, 0 * keys)[0])


def test_cosine_starts_at_its_scale():
    fresh = CosineAttention(2.5)
    fresh.build((B, T, Q), (B, S, Q))
    assert float(fresh.factor) == 2.5


@pytest.mark.slow
def test_cosine_of_a_decoder_starts_from_a_state_of_zeros():
    rng = np.random.default_rng(0)
    inputs, memory = (
        tf.constant(rng.standard_normal(s), "float32") for s in ((B, T, Q), (B, S, K))
    )
    layer = AttentionLSTM(K, 2, "cosine")
    layer.build(inputs.shape, memory.shape)
    sources = [memory, *layer.trainable_variables]
    _, found = gradients(lambda: layer(inputs, memory, training=True)[0] ** 2, sources)
    assert all(np.isfinite(gradient).all() for gradient in found)
