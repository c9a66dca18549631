"""Hand-written gradients and hashes against the plain formulas beside them."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers import reference
from tests.layers.gradients import gradients
from tfnlp.layers.activations import activation, gelu, gelu_tanh
from tfnlp.layers.dropout import dropout_mask, hashed_mask
from tfnlp.layers.kernels.backend import traced_for_tpu
from tfnlp.layers.kernels.cross_entropy import (
    cross_entropy_of_rows,
    plain_cross_entropy,
    plain_vocabulary_loss,
    positions_of,
    vocabulary_loss,
)
from tfnlp.layers.kernels.products import (
    from_columns,
    plain_from_columns,
    plain_to_columns,
    to_columns,
)
from tfnlp.layers.normalization import plain_scaled_norm, scaled_norm

WORDS = np.random.default_rng(6).integers(0, 11, 23).astype("int32")
COUNTED = np.random.default_rng(7).uniform(0, 2, 23).astype("float32")
IDS = np.random.default_rng(5).integers(0, 9, 6).astype("int32")


def on_tpu(function):
    """The form for a TPU of a function."""

    def traced(*arguments):
        with traced_for_tpu():
            return function(*arguments)

    return traced


def training(function):
    return functools.partial(function, training=True)


# What no row of the conformance table computes.
PAIRS = {
    "to_columns": (to_columns, plain_to_columns, [(3, 5, 4), (4, 6), (6,)]),
    "from_columns": (from_columns, plain_from_columns, [(3, 4, 5), (4, 6), (6,)]),
    "scaled_norm of constant rows": (
        lambda x, gamma: scaled_norm(x * 0, gamma, 0.1),
        lambda x, gamma: plain_scaled_norm(x * 0, gamma, 0.1),
        [(6, 16), (16,)],
    ),
    "cross_entropy": (
        lambda z: cross_entropy_of_rows(z, IDS),
        lambda z: plain_cross_entropy(z, IDS),
        [(6, 9)],
    ),
    "cross_entropy of smoothed labels": (
        lambda z: cross_entropy_of_rows(z, IDS, 0.1),
        lambda z: plain_cross_entropy(z, IDS, 0.1),
        [(6, 9)],
    ),
    "gelu": (training(gelu), lambda x: keras.ops.gelu(x, approximate=False), [(40, 50)]),
    "gelu on a TPU": (
        on_tpu(training(gelu)),
        lambda x: keras.ops.gelu(x, approximate=False),
        [(40, 50)],
    ),
    "gelu_tanh": (training(gelu_tanh), lambda x: keras.ops.gelu(x, approximate=True), [(40, 50)]),
    "vocabulary_loss": (
        lambda *x: vocabulary_loss(*x, WORDS, COUNTED, 8)[0],
        lambda *x: plain_vocabulary_loss(*x, WORDS, COUNTED)[0],
        [(23, 4), (11, 4), (11,)],
    ),
    "vocabulary_loss without a bias": (
        lambda *x: vocabulary_loss(*x, None, WORDS, COUNTED, 23)[0],
        lambda *x: plain_vocabulary_loss(*x, None, WORDS, COUNTED)[0],
        [(23, 4), (11, 4)],
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["eager", "xla"]
)
def test_values_and_gradients(name, compiled):
    kernel, plain, shapes = PAIRS[name]
    rng = np.random.default_rng(2)
    arguments = [tf.constant(1 + 2 * rng.standard_normal(s), "float32") for s in shapes]
    upstream = tf.constant(rng.standard_normal(kernel(*arguments).shape), "float32")

    def run(function):
        return gradients(lambda: function(*arguments), arguments, upstream)

    got = tf.function(run, jit_compile=True, autograph=False)(kernel) if compiled else run(kernel)
    want = run(plain)
    for g, expected in zip([got[0], *got[1]], [want[0], *want[1]], strict=True):
        np.testing.assert_allclose(g, expected, rtol=2e-4, atol=2e-5)


def test_hits_of_the_vocabulary_are_first_best_words():
    """Of equal logits the first word is the guess, as in `argmax`."""
    rng = np.random.default_rng(8)
    h, table = (rng.integers(-1, 2, shape).astype("float32") for shape in ((23, 2), (11, 2)))
    z = h @ table.T
    assert (np.sort(z, -1)[:, -1] == np.sort(z, -1)[:, -2]).any()
    ids = np.where(np.arange(23) % 2, z.argmax(-1), WORDS).astype("int32")
    hits = vocabulary_loss(h, table, None, ids, COUNTED, 8)[1]
    np.testing.assert_allclose(hits, COUNTED[z.argmax(-1) == ids].sum(), rtol=1e-6)


def test_positions_of_a_turn_divide_all_where_they_can():
    assert positions_of(49152, 40478, 2**27) == 3072
    assert positions_of(7296, 30522, 2**27) == 3648
    assert positions_of(23, 10, 100) == 8
    assert positions_of(23, 10, 1000) == 23


@pytest.mark.parametrize(
    "dropped, count, shape, others",
    [
        (0, 1024, (1, 512), (40, 1)),
        (1, 101, (1, 51), (40, 1)),
        (65535, 101, (1, 51), (40, 1)),
        (20000, 3, (2, 2, 5, 1), (7,)),
        (20000, 4, (2, 2, 5, 1), (7,)),
    ],
)
@pytest.mark.parametrize("halves", [False, True])
def test_mask_is_the_hash_of_the_draws(dropped, count, shape, others, halves):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-(2**31), 2**31, s).astype("int32") for s in (shape, others))
    mask = hashed_mask(a, b, count, dropped, halves)
    np.testing.assert_array_equal(mask, reference.hashed(a, b)[:, :count] >= dropped)


@pytest.mark.parametrize(("count", "width"), [(1, 1), (1025, None), (5000, 50), (6400, 64)])
def test_mask_has_as_many_elements_as_asked_for(count, width):
    mask = np.asarray(dropout_mask(count, width, 20000, keras.random.SeedGenerator(4)))
    assert mask.size == count and mask.shape == ((100, 64) if width == 64 else (count,))
    assert count == 1 or abs(mask.mean() - 1 + 20000 / 65536) < 0.03


@pytest.mark.parametrize("name", reference.ACTIVATIONS)
def test_values_of_activations(name):
    x = np.linspace(-6, 6, 241)
    got = activation(name)(x.astype("float32"))
    np.testing.assert_allclose(got, reference.ACTIVATIONS[name](x), rtol=1e-5, atol=1e-6)
