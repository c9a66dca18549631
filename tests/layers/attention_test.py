import numpy as np
import pytest
import tensorflow as tf

from tests.layers import reference
from tests.layers.gradients import gradients
from tests.layers.reference import attend, attention, dense, inside, weights
from tfnlp.layers import MultiHeadAttention

B, T, H, S, C = 3, 6, 8, 5, 10
MASK = np.array([[1, 1, 1, 0, 1, 0], [1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]], bool)
CLOSE = dict(rtol=1e-4, atol=1e-5)


def built(num_heads=2, context=False, **kwargs):
    shapes = [(B, T, H), *([(B, S, C)] if context else [])]
    layer, rng = reference.built(MultiHeadAttention(num_heads, **kwargs), *shapes, seed=7)
    x = rng.standard_normal((B, T, H)).astype("float32")
    return layer, x, rng


def empty_cache(size, num_heads=2, dtype="float32"):
    one = tf.fill((B, num_heads, size, H // num_heads), tf.constant(9.0, dtype))  # not zeros
    return {"cached_keys": one, "cached_values": one}


def as_cache(keys, values):
    return {"cached_keys": keys, "cached_values": values}


@pytest.mark.parametrize(
    "num_heads, masked, causal",
    [(1, True, True), (2, False, False), (4, True, False), (8, False, True)],
)
def test_self_attention(num_heads, masked, causal):
    layer, x, _ = built(num_heads, causal=causal)
    mask = MASK if masked else None
    expected, scores = attention(x, weights(layer), num_heads, mask=mask, causal=causal)
    got, got_scores = layer(x, mask=mask, return_scores=True)
    np.testing.assert_allclose(got, expected, **CLOSE)
    np.testing.assert_allclose(got_scores, scores, **CLOSE)
    np.testing.assert_allclose(layer(x, mask=mask), expected, **CLOSE)


@pytest.mark.parametrize("masked", [False, True])
def test_cross_attention(masked):
    layer, x, rng = built(context=True)
    context = rng.standard_normal((B, S, C)).astype("float32")
    mask = MASK[:, :S] if masked else None
    expected, scores = attention(x, weights(layer), 2, context=context, mask=mask)
    got, got_scores = layer(x, context=context, mask=mask, return_scores=True)
    np.testing.assert_allclose(got, expected, **CLOSE)
    np.testing.assert_allclose(got_scores, scores, **CLOSE)


@pytest.mark.parametrize("masked, causal", [(False, False), (True, True)])
def test_sequences_of_one_row_are_kept_apart(masked, causal):
    layer, x, _ = built(causal=causal)
    ids = np.array([[1, 1, 2, 2, 3, 3], [7, 7, 7, 7, 7, 7], [0, 1, 0, 1, 0, 1]], "int32")
    mask = np.array([[1, 1, 1, 0, 1, 0], [1] * 6, [1] * 6], bool) if masked else None
    w = weights(layer)
    q, k, v = np.split(dense(x, inside(w, "qkv")), 3, axis=-1)

    def visible(b, t, s):
        same, real = ids[b, t] == ids[b, s], mask is None or mask[b, s]
        return same and real and (s <= t or not causal)

    joined, expected = attend(q, k, v, 2, visible)
    got, scores = layer(x, mask=mask, sequence_ids=ids, return_scores=True)
    np.testing.assert_allclose(scores, expected, **CLOSE)
    np.testing.assert_allclose(got, dense(joined, inside(w, "output")), **CLOSE)


def test_a_sequence_of_padding_only_stays_finite():
    layer, x, _ = built()
    mask = np.zeros((B, T), bool)
    mask[1, 0] = True
    got, found = gradients(lambda: layer(x, mask=mask) ** 2, layer.trainable_variables)
    assert all(np.isfinite(g).all() for g in [got, *found])


@pytest.mark.parametrize("steps, size", [([1] * 6, 9), ([3, 2, 1], 6)])
def test_decoding_with_a_cache_equals_the_full_pass(steps, size):
    layer, x, _ = built(causal=True)
    expected, _ = attention(x, weights(layer), 2, causal=True)
    cache, at, got = empty_cache(size), 0, []
    for step in steps:
        y, *cached = layer(x[:, at : at + step], **cache, cache_index=at)
        cache = as_cache(*cached)
        got.append(np.asarray(y))
        at += step
    np.testing.assert_allclose(np.concatenate(got, axis=1), expected, **CLOSE)
    keys, values = np.split(dense(x, inside(weights(layer), "qkv")), 3, axis=-1)[1:]
    for part, flat in zip(cache.values(), (keys, values), strict=True):
        heads = flat.reshape(B, T, 2, H // 2).transpose(0, 2, 1, 3)  # [B, N, T, D]
        np.testing.assert_allclose(part[:, :, :T], heads, **CLOSE)
        assert (np.asarray(part)[:, :, T:] == 9).all()  # slots not reached are left alone


def test_cache_without_causal_sees_all_that_is_written_and_nothing_else():
    layer, x, _ = built()
    _, *cached = layer(x[:, :4], **empty_cache(9), cache_index=0)
    got, _, _, scores = layer(x[:, 4:], **as_cache(*cached), cache_index=4, return_scores=True)
    w = weights(layer)
    q, k, v = np.split(dense(x.astype("float64"), inside(w, "qkv")), 3, axis=-1)
    joined, expected = attend(q[:, 4:], k, v, 2, lambda b, t, s: True)
    np.testing.assert_allclose(got, dense(joined, inside(w, "output")), **CLOSE)
    assert scores.shape == (B, 2, 2, 9)
    np.testing.assert_allclose(scores[..., :T], expected, **CLOSE)
    assert (np.asarray(scores)[..., T:] == 0).all()


def test_keys_of_a_context_may_be_fewer_than_the_queries_but_new_ones_need_their_place():
    layer, x, rng = built(context=True)
    context = rng.standard_normal((B, 2, C)).astype("float32")
    expected, _ = attention(x, weights(layer), 2, context=context)
    got = layer(x, **as_cache(*layer.keys_values(context)))
    np.testing.assert_allclose(got, expected, **CLOSE)
    layer, x, _ = built(causal=True)
    _, *cached = layer(x[:, :3], **empty_cache(4), cache_index=0)
    with pytest.raises(ValueError, match="too short for 3 . 2"):
        layer(x[:, 3:5], **as_cache(*cached), cache_index=3)
    layer(x[:, 3:4], **as_cache(*cached), cache_index=3)
