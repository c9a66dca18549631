import math

import numpy as np
import pytest
import tensorflow as tf

from tests.layers import reference
from tests.layers.gradients import gradients, without_rows
from tfnlp.layers import (
    PositionEmbedding,
    RelativePositionBias,
    SegmentEmbedding,
    SinusoidalPositions,
    TokenEmbedding,
)


def built(layer, shape):
    layer, _ = reference.built(layer, shape)
    return layer, layer.embeddings.numpy()


def test_token_lookup():
    layer, table = built(TokenEmbedding(7, 4), (2, 3))
    ids = np.array([[0, 6, 3], [3, 3, 1]], "int32")
    np.testing.assert_array_equal(layer(ids), table[ids])


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_ids_may_be_floats(policy):
    """As those of Keras's own embeddings, also where narrow floats would round them."""
    layer, table = built(TokenEmbedding(999, 4, dtype=policy), (2, 3))
    ids = np.array([[0, 257, 998]], "float32")
    np.testing.assert_allclose(np.asarray(layer(ids), "float32"), table[ids.astype(int)], rtol=0.01)


@pytest.mark.parametrize("lead", [(3,), (2, 3), (2, 3, 5)])
def test_reverse_is_the_tied_projection(lead):
    layer, table = built(TokenEmbedding(7, 4), (2, 3))
    hidden = np.random.default_rng(1).standard_normal((*lead, 4)).astype("float32")
    expected = np.einsum("...h,vh->...v", hidden.astype("float64"), table.astype("float64"))
    got = layer(hidden, reverse=True)
    assert got.shape == (*lead, 7)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_positions():
    layer, table = built(PositionEmbedding(6), (2, 4, 3))
    x = np.zeros((2, 4, 3), "float32")
    np.testing.assert_array_equal(layer(x), table[None, :4])
    np.testing.assert_array_equal(layer(x, start=2), table[None, 2:6])
    step = tf.function(lambda x, start: layer(x, start=start))
    np.testing.assert_array_equal(step(x[:, :1], tf.constant(5)), table[None, 5:6])


def test_positions_after_other_rows_and_row_by_row():
    layer, table = built(PositionEmbedding(6, offset=2), (2, 4, 3))
    assert table.shape == (8, 3)
    x = np.zeros((2, 4, 3), "float32")
    np.testing.assert_array_equal(layer(x), table[None, 2:6])
    np.testing.assert_array_equal(layer(x, start=2), table[None, 4:8])
    rows = np.array([[0, 1, 1, 7], [2, 3, 4, 5]], "int32")
    np.testing.assert_array_equal(layer(x, positions=rows), table[rows])
    # As many rows as there are positions, whatever the length of what is read.
    np.testing.assert_array_equal(layer(x[:1, :1], positions=rows[:1, 3:])[0], table[7:])


def test_numbers_of_distances():
    """Buckets as transformers' MPNet has them: 16 for keys up to the query, 16 for those after."""
    layer, table = built(RelativePositionBias(2, 33), (1, 200, 3))
    assert table.shape == (33, 2)
    found = layer(np.zeros((1, 200, 3), "float32"))
    assert found.shape == (1, 2, 200, 200)
    last = {7: 7, 11: 8, 15: 9, 22: 10, 31: 11, 45: 12, 63: 13, 90: 14, 199: 15}  # of a bucket
    for distance, bucket in {**last, 0: 0, 1: 1, 8: 8, 32: 12, 64: 14, 91: 15}.items():
        np.testing.assert_array_equal(found[0, :, 199, 199 - distance], table[bucket])
        if distance:
            np.testing.assert_array_equal(found[0, :, 0, distance], table[16 + bucket])
    with pytest.raises(ValueError, match="num_buckets=31 must be at least 32"):
        RelativePositionBias(2, 31)


def test_segment_lookup_and_its_gradient():
    layer, table = built(SegmentEmbedding(3, 4), (2, 3))
    ids = np.array([[0, 0, 1], [1, 2, 0]], "int32")
    np.testing.assert_allclose(layer(ids), table[ids], rtol=1e-6)
    upstream = np.random.default_rng(1).standard_normal((2, 3, 4)).astype("float32")
    _, found = gradients(lambda: layer(ids), [layer.embeddings], upstream)
    expected = np.stack([upstream[ids == s].sum(0) for s in range(3)])
    np.testing.assert_allclose(*without_rows(found), expected, rtol=1e-5, atol=1e-6)


def sinusoid(positions, hidden, longest=10000.0):
    """Section 3.5 with one channel at a time, in float64."""
    table = np.zeros((len(positions), hidden))
    for row, position in enumerate(positions):
        for i in range(hidden):
            wave = (math.sin, math.cos)[i % 2]
            table[row, i] = wave(position / longest ** (2 * (i // 2) / hidden))
    return table


@pytest.mark.parametrize("hidden", [8, 7, 2, 1])
def test_sines_on_even_channels_and_cosines_on_odd_ones(hidden):
    got = SinusoidalPositions()(np.zeros((3, 9, hidden), "float32"))
    assert got.shape == (1, 9, hidden)
    np.testing.assert_allclose(got[0], sinusoid(range(9), hidden), atol=1e-6)


def test_start_and_positions_of_sinusoids():
    layer, x = SinusoidalPositions(max_wavelength=300.0), np.zeros((2, 4, 6), "float32")
    for start in (5, tf.constant(5, "int64")):
        want = sinusoid(range(5, 9), 6, 300.0)
        np.testing.assert_allclose(layer(x, start=start)[0], want, atol=1e-6)
    positions = np.array([[0, 0, 1, 2], [3, 1, 200, 0]], "int32")
    want = [sinusoid(row, 6, 300.0) for row in positions]
    np.testing.assert_allclose(layer(x, positions=positions), want, atol=2e-5)


def test_no_longest_sequence():
    x = np.zeros((1, 2, 512), "float32")
    got = SinusoidalPositions()(x, start=100_000)[0]
    # A float32 angle of 100,000 is off by up to 0.004.
    np.testing.assert_allclose(got, sinusoid([100_000, 100_001], 512), atol=0.01)
