"""Noise-contrastive estimation against loops in numpy, `tf.nn.nce_loss`, and what it estimates."""

import numpy as np
import pytest
import tensorflow as tf

from tests.layers import negative_sampling_test as sampling
from tests.layers.negative_sampling_test import make as make_blocks
from tests.layers.negative_sampling_test import pairs
from tests.layers.reference import randomize, sigmoid
from tests.layers.sampled_softmax_test import draw, full_losses, next_words, scores_of
from tfnlp.layers import (
    CBOWLoss,
    NCECBOWLoss,
    NCESkipGramLoss,
    NoiseContrastiveSoftmax,
    SkipGramLoss,
)
from tfnlp.layers.sampled_softmax import expected_counts

V, P, K = 40, 5, 12


def make(num_samples=K):
    layer = NoiseContrastiveSoftmax(V, num_samples, seed=1)
    layer.build((None, P))
    randomize(layer, np.random.default_rng(0))
    return layer


def test_losses_of_a_draw_are_the_formula_and_those_of_tensorflow():
    layer, (x, y) = make(), draw()
    scores, counts = scores_of(layer, x), expected_counts(V, K)
    for _ in range(5):
        words = next_words(layer)
        want = []
        for score, target in zip(scores, y, strict=True):
            loss = -np.log(sigmoid(score[target] - np.log(counts[target])))
            for word in words:
                loss -= np.log(1 - sigmoid(score[word] - np.log(counts[word])))
            want.append(loss)
        got = layer(x, y, training=True)
        np.testing.assert_allclose(got, want, rtol=1e-5)
        theirs = tf.nn.nce_loss(
            layer.kernel.value,
            layer.bias.value,
            y[:, None].astype("int64"),
            x,
            K,
            V,
            sampled_values=(words.astype("int64"), counts[y][:, None].astype("float32"),
                            counts[words].astype("float32")),
        )  # fmt: skip
        np.testing.assert_allclose(got, theirs, rtol=1e-5)


def test_measured_by_the_full_softmax():
    layer, (x, y) = make(), draw()
    np.testing.assert_allclose(layer(x, y), full_losses(layer, x, y), rtol=1e-5)
    np.testing.assert_allclose(make(V)(x, y, training=True), full_losses(layer, x, y), rtol=1e-5)


def test_at_first_probabilities_add_up_to_one():
    layer = NoiseContrastiveSoftmax(V, K)
    layer.build((None, P))
    np.testing.assert_allclose(np.exp(layer(np.zeros((1, P), "float32"))).sum(), 1, rtol=1e-5)


BLOCKS = {NCESkipGramLoss: SkipGramLoss, NCECBOWLoss: CBOWLoss}


@pytest.mark.parametrize("layer", BLOCKS)
def test_blocks_are_the_formula_of_all_pairs(layer):
    loss, x = make_blocks(layer)
    counts = np.arange(sampling.V) ** 2
    loss.set_counts(counts)
    share = counts**0.75 / (counts**0.75).sum()
    share[0] = share[1]  # never drawn; its logarithm must be finite all the same
    kernel, bias = (np.asarray(w, "float64") for w in (loss.kernel, loss.bias))
    weight = sampling.K / sampling.N
    want, d_kernel, d_bias = np.zeros(sampling.B), np.zeros(kernel.shape), np.zeros(sampling.V)
    for block in range(sampling.B):
        for vector, _, word in pairs(BLOCKS[layer], x, block):
            terms = [(word, 1, 1.0)] + [(n, 0, weight) for n in x["negative_ids"][block]]
            for output, label, times in terms:
                score = kernel[output] @ vector + bias[output]
                p = sigmoid(score - np.log(sampling.K * share[output]))
                want[block] -= times * np.log(p if label else 1 - p)
                d_kernel[output] += times * (p - label) * vector
                d_bias[output] += times * (p - label)
    with tf.GradientTape() as tape:
        losses = loss(**x)
    gradients = tape.gradient(losses, [loss.kernel.value, loss.bias.value])
    for got, expected in zip([losses, *gradients], [want, d_kernel, d_bias], strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(got), expected, rtol=1e-4, atol=1e-5)
