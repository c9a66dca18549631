"""Hand-written gradients and hashes against the plain formulas beside them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfnlp.layers.kernels.add_bias import ones_times, plain_add_bias, with_sum_of_rows
from tfnlp.layers.kernels.char_maxima import maxima_by_place, plain_char_maxima
from tfnlp.layers.kernels.columns import (
    from_columns,
    plain_from_columns,
    plain_to_columns,
    to_columns,
)
from tfnlp.layers.kernels.cross_entropy import cross_entropy_of_rows, plain_cross_entropy
from tfnlp.layers.kernels.dropout_mask import (
    COLUMNS,
    dropout_mask,
    mask_of_draws,
    plain_mask_of_draws,
)
from tfnlp.layers.kernels.gelu import trainable_gelu, trainable_gelu_tanh
from tfnlp.layers.kernels.layer_norm import plain_scaled_norm, scaled_norm
from tfnlp.layers.kernels.pair_losses import pair_losses, plain_pair_losses
from tfnlp.layers.kernels.tied_projection import plain_tied_projection, tied_projection

BAND = np.random.default_rng(0).integers(0, 2, (2, 3, 5)).astype("float32")
WEIGHTS = np.random.default_rng(1).uniform(0, 3, (2, 1, 5)).astype("float32")
IDS = np.random.default_rng(5).integers(0, 9, 6).astype("int32")
PAIRS = {
    "to_columns": (to_columns, plain_to_columns, [(3, 5, 4), (4, 6), (6,)]),
    "from_columns": (from_columns, plain_from_columns, [(3, 4, 5), (4, 6), (6,)]),
    "with_sum_of_rows": (with_sum_of_rows, plain_add_bias, [(7, 5), (5,)]),
    "ones_times": (ones_times, lambda x: tf.reduce_sum(x, 0), [(7, 5)]),
    "scaled_norm": (
        lambda x, gamma: scaled_norm(x, gamma, 1e-5),
        lambda x, gamma: plain_scaled_norm(x, gamma, 1e-5),
        [(6, 16), (16,)],
    ),
    "scaled_norm of constant rows": (
        lambda x, gamma: scaled_norm(x * 0, gamma, 0.1),
        lambda x, gamma: plain_scaled_norm(x * 0, gamma, 0.1),
        [(6, 16), (16,)],
    ),
    "tied_projection": (tied_projection, plain_tied_projection, [(6, 4), (9, 4)]),
    "char_maxima": (
        maxima_by_place,
        plain_char_maxima,
        [(9, 5, 3), (1, 3, 4), (2, 3, 6), (2, 3, 2), (5, 3, 7)],
    ),
    "pair_losses": (
        lambda scores: pair_losses(5 * scores, BAND, WEIGHTS, 3),
        lambda scores: plain_pair_losses(5 * scores, BAND, WEIGHTS, 3),
        [(2, 7, 5)],
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
    "gelu": (trainable_gelu, lambda x: keras.ops.gelu(x, approximate=False), [(40, 50)]),
    "gelu_tanh": (trainable_gelu_tanh, lambda x: keras.ops.gelu(x, approximate=True), [(40, 50)]),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "xla"])
def test_values_and_gradients(name, compiled):
    kernel, plain, shapes = PAIRS[name]
    rng = np.random.default_rng(2)
    arguments = [tf.constant(1 + 2 * rng.standard_normal(s), "float32") for s in shapes]
    upstream = tf.constant(rng.standard_normal(kernel(*arguments).shape), "float32")

    def run(function):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            y = function(*arguments)
        return y, *tape.gradient(y, arguments, upstream)

    got = tf.function(run, jit_compile=True, autograph=False)(kernel) if compiled else run(kernel)
    for g, expected in zip(got, run(plain), strict=True):
        np.testing.assert_allclose(g, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("dropped", [0, 1, 6554, 32768, 65535])
def test_mask_is_the_hash_of_the_draws(dropped):
    draws = np.random.default_rng(3).integers(-(2**31), 2**31, COLUMNS + 40).astype("int32")
    mask = np.asarray(mask_of_draws(draws, dropped))
    np.testing.assert_array_equal(mask, plain_mask_of_draws(draws, dropped))
    a, b = draws[COLUMNS:].astype("uint32"), draws[:COLUMNS].astype("uint32")
    words = a[:, None] ^ b
    words = (words ^ words >> 16) * np.uint32(0x85EBCA6B)
    words = (words ^ words >> 13) * np.uint32(0xC2B2AE35)
    words ^= words >> 16
    expected = np.concatenate([words & 0xFFFF, words >> 16], 1) >= dropped
    np.testing.assert_array_equal(mask, expected.ravel())


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_mask_has_as_many_elements_as_asked_for(count):
    long = np.asarray(dropout_mask(8192, 20000, keras.random.SeedGenerator(4)))
    mask = np.asarray(dropout_mask(count, 20000, keras.random.SeedGenerator(4)))
    assert mask.shape == (count,) and abs(long.mean() - 1 + 20000 / 65536) < 0.03
