"""The formulas are recomputed in numpy in tests/models/seq2seq_test.py."""

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.reference import randomize
from tfnlp.layers import AttentionLSTM
from tfnlp.layers.attention_scores import masked_bias
from tfnlp.layers.kernels.attention_loop import Fixed, attention_loop, trainable_attention_loop

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


@pytest.mark.parametrize(
    "score, feeding, layers",
    [
        ("additive", False, 2),
        ("additive", True, 1),
        ("general", True, 3),
        ("cosine", False, 1),
    ],
)
def test_the_written_gradient_equals_the_derived_one(score, feeding, layers):
    """For every tensor, with dropout between the layers and a cotangent for every output."""
    layer, arrays, rng = case(score, feeding, layers)
    state = arrays["initial_state"]
    draw = lambda *shape: rng.standard_normal(shape).astype("float32")  # noqa: E731
    tensors = {
        "gates": draw(T, B, 4 * U),
        "c": [state[:, i, :U] for i in range(layers)],
        "h": [state[:, i, U:] for i in range(layers)],
        "keys": layer.attention.project_keys(tf.constant(arrays["memory"])),
        "values": arrays["memory"],
        "weights": layer._weights(),
    }
    if feeding:
        tensors["fed"] = arrays["previous_output"]
    tensors = tf.nest.map_structure(tf.convert_to_tensor, tensors)
    drops = tuple(2.0 * (draw(T, B, U) > 0) for _ in range(layers - 1))
    fixed = Fixed(feeding, score == "cosine", masked_bias(MASK), drops)
    found = []
    for loop in (attention_loop, trainable_attention_loop):
        with tf.GradientTape() as tape:
            tape.watch(tf.nest.flatten(tensors))
            outputs = tf.nest.flatten(loop(tensors, fixed))
            cotangents = np.random.default_rng(1)
            loss = sum(tf.reduce_sum(y * cotangents.standard_normal(y.shape)) for y in outputs)
        found.append((outputs, tf.nest.flatten(tape.gradient(loss, tensors))))
    (derived_outputs, derived), (outputs, written) = found
    for got, want in zip(outputs, derived_outputs, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)
    for got, want in zip(written, derived, strict=True):
        assert np.abs(want).max() > 1e-2
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


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
