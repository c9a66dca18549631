"""The formulas are recomputed in numpy in tests/models/seq2seq_test.py."""

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.reference import randomize
from tfnlp.layers import AttentionLSTM

B, T, S, I, U, D = 3, 5, 4, 6, 8, 7  # noqa: E741
MASK = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 0, 0]], bool)


def case(score="additive", feeding=False, layers=2, seed=0, **kwargs):
    """A layer with random weights, and a call's arguments."""
    rng = np.random.default_rng(seed)
    width = D if score in ("additive", "general") else U
    layer = AttentionLSTM(U, layers, score, feeding, **kwargs)
    layer.build((None, None, I), (None, None, width))
    randomize(layer, rng, 0.5)
    shapes = {"inputs": (B, T, I), "memory": (B, S, width), "initial_state": (B, layers, 2 * U)}
    if feeding:
        shapes["previous_output"] = (B, U)
    return layer, {k: rng.standard_normal(s).astype("float32") for k, s in shapes.items()}, rng


def test_dropout_between_the_layers():
    layer, arrays, _ = case(dropout=0.5)
    one, two = (layer(training=True, **arrays)[0] for _ in range(2))
    assert np.abs(one - two).max() > 1e-2
    single, arrays, _ = case(dropout=0.5, layers=1)
    one, two = (single(training=t, **arrays)[0] for t in (True, False))
    np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.slow
def test_cosine_starts_from_a_state_of_zeros():
    layer, arrays, _ = case("cosine")
    memory = tf.constant(arrays["memory"])
    with tf.GradientTape() as tape:
        tape.watch(memory)
        loss = tf.reduce_sum(layer(arrays["inputs"], memory, training=True)[0] ** 2)
    for gradient in tape.gradient(loss, [memory, *[v.value for v in layer.trainable_variables]]):
        assert np.isfinite(gradient).all()
