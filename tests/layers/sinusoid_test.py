import math

import numpy as np
import pytest
import tensorflow as tf

from tfnlp.layers import SinusoidalPositions


def formula(positions, hidden, longest=10000.0):
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
    np.testing.assert_allclose(got[0], formula(range(9), hidden), atol=1e-6)


def test_start_and_positions():
    layer, x = SinusoidalPositions(max_wavelength=300.0), np.zeros((2, 4, 6), "float32")
    for start in (5, tf.constant(5, "int64")):
        want = formula(range(5, 9), 6, 300.0)
        np.testing.assert_allclose(layer(x, start=start)[0], want, atol=1e-6)
    positions = np.array([[0, 0, 1, 2], [3, 1, 200, 0]], "int32")
    want = [formula(row, 6, 300.0) for row in positions]
    np.testing.assert_allclose(layer(x, positions=positions), want, atol=2e-5)


def test_no_longest_sequence():
    x = np.zeros((1, 2, 512), "float32")
    got = SinusoidalPositions()(x, start=100_000)[0]
    # A float32 angle of 100,000 is off by up to 0.004.
    np.testing.assert_allclose(got, formula([100_000, 100_001], 512), atol=0.01)
