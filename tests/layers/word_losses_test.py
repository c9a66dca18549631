"""Losses of word vectors against loops: over pairs of words, and of GloVe over cells."""

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.gradients import gradients, without_rows
from tests.layers.reference import built, sigmoid
from tfnlp import models, objectives
from tfnlp.layers import CBOWLoss, GloVeLoss, NCECBOWLoss, NCESkipGramLoss, SkipGramLoss

V, D, B, L, W, N, K = 30, 7, 3, 6, 2, 4, 5


def blocks(rng):
    """Vectors, words and windows of blocks."""
    inputs = {
        "inputs": rng.standard_normal((B, L + 2 * W, D)).astype("float32"),
        "word_ids": rng.integers(0, V, (B, L + 2 * W)).astype("int32"),
        "left": rng.integers(0, W + 1, (B, L)).astype("int32"),
        "right": rng.integers(0, W + 1, (B, L)).astype("int32"),
    }
    inputs["left"][0, :2] = inputs["right"][0, :2] = 0  # words that stand alone
    return inputs


def make(layer, scale=0.7):
    loss, rng = built(layer(V, window=W, negatives=K), (B, L + 2 * W, D), scale=scale)
    inputs = {**blocks(rng), "negative_ids": rng.integers(0, V, (B, N)).astype("int32")}
    inputs["negative_ids"][1, 1] = inputs["negative_ids"][1, 0]  # one that was drawn twice
    return loss, inputs


def windows(x, block):
    """(place of a centre, places of the words in its window) of a block."""
    for i in range(L):
        left, right = x["left"][block, i], x["right"][block, i]
        near = [j for j in range(i + W - left, i + W + right + 1) if j != i + W]
        yield i + W, near


def pairs(layer, x, block):
    """(vector, its parts as (place, share), word to find) of every pair of a block."""
    vectors = x["inputs"].astype("float64")
    for centre, near in windows(x, block):
        word = x["word_ids"][block, centre]
        if issubclass(layer, SkipGramLoss):
            yield from ((vectors[block, j], [(j, 1.0)], word) for j in near)
        elif near:
            shares = [(j, 1 / len(near)) for j in near]
            yield sum(share * vectors[block, j] for j, share in shares), shares, word


def reference(layer, kernel, shifts, x, upstream):
    """Losses, and gradients of `sum upstream * losses` pair by pair.

    They are of inputs, kernel and what is added to the scores of words, `[V]`.
    """
    losses, d_inputs, d_kernel = np.zeros(B), np.zeros((B, L + 2 * W, D)), np.zeros((V, D))
    d_shifts = np.zeros(V)
    for block in range(B):
        for vector, parts, word in pairs(layer, x, block):
            terms = [(word, 1, 1.0)] + [(n, 0, K / N) for n in x["negative_ids"][block]]
            for output, label, weight in terms:
                p = sigmoid(kernel[output] @ vector + shifts[output])
                losses[block] -= weight * np.log(p if label else 1 - p)
                slope = upstream[block] * weight * (p - label)
                d_kernel[output] += slope * vector
                d_shifts[output] += slope
                for place, share in parts:
                    d_inputs[block, place] += slope * share * kernel[output]
    return losses, d_inputs, d_kernel, d_shifts


@pytest.mark.parametrize("layer", [SkipGramLoss, CBOWLoss, NCESkipGramLoss, NCECBOWLoss])
def test_losses_and_gradients_are_those_of_all_pairs(layer):
    loss, x = make(layer)
    shifts, weights = np.zeros(V), [loss.kernel]
    if layer in (NCESkipGramLoss, NCECBOWLoss):
        counts = np.arange(V) ** 2
        loss.set_counts(counts)
        share = counts**0.75 / (counts**0.75).sum()
        share[0] = share[1]  # never drawn; its logarithm must be finite all the same
        shifts = np.asarray(loss.bias, "float64") - np.log(K * share)
        weights.append(loss.bias)
    upstream = np.array([1.0, -2.0, 0.5], "float32")
    want = reference(layer, np.asarray(loss.kernel, "float64"), shifts, x, upstream)
    inputs = tf.constant(x["inputs"])
    sources = [inputs, *weights]
    losses, found = gradients(lambda: loss(**{**x, "inputs": inputs}), sources, upstream)
    assert all(isinstance(d, tf.IndexedSlices) for d in found[1:])  # never the whole table
    got = [losses, *without_rows(found)]
    for g, w in zip(got, want[: len(got)], strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)


def test_huge_scores_give_finite_losses_and_gradients():
    loss, x = make(SkipGramLoss, scale=200.0)
    losses, found = gradients(lambda: loss(**x), [loss.kernel])
    assert np.isfinite(losses).all() and np.isfinite(*without_rows(found)).all()
    assert np.max(losses) > 1000


def test_at_first_outputs_are_zero_and_every_pair_costs_the_same():
    loss = SkipGramLoss(V, window=W, negatives=K)
    _, x = make(SkipGramLoss)
    want = (1 + K) * np.log(2) * (x["left"] + x["right"]).sum(1)
    np.testing.assert_allclose(loss(**x), want, rtol=1e-5)


CELLS, X_MAX, ALPHA = 6, 10.0, 0.6


def cells():
    rng = np.random.default_rng(0)
    return {
        "inputs": rng.standard_normal((CELLS, D)).astype("float32"),
        "word_ids": np.array([0, 3, 3, 5, 8, 1], "int32"),
        "context_ids": np.array([2, 2, 7, 5, 0, 0], "int32"),
        "counts": np.array([0.1, 1, 9.5, 10, 300, 0], "float32"),  # the last one is padding
    }


def slope_and_loss(vector, w, i, j, x):
    """`f(x) diff`, half the slope of the loss by diff, and the loss."""
    weight = min(1.0, (x / X_MAX) ** ALPHA) if x else 0.0
    difference = vector @ w["kernel"][j] + w["bias"][i] + w["context_bias"][j] - np.log(x or 1)
    return weight * difference, weight * difference**2


def test_losses_and_gradients_are_those_of_the_cells():
    (layer, _), x = built(GloVeLoss(V, X_MAX, ALPHA), (CELLS, D), seed=1), cells()
    w = {v.name: np.asarray(v, "float64") for v in layer.weights}
    upstream = np.arange(1.0, CELLS + 1)
    want = {name: np.zeros(value.shape) for name, value in w.items()}
    want["inputs"], losses = np.zeros((CELLS, D)), np.zeros(CELLS)
    for n in range(CELLS):
        i, j, vector = x["word_ids"][n], x["context_ids"][n], x["inputs"][n].astype("float64")
        slope, losses[n] = slope_and_loss(vector, w, i, j, float(x["counts"][n]))
        slope *= 2 * upstream[n]
        want["inputs"][n] += slope * w["kernel"][j]
        want["kernel"][j] += slope * vector
        want["bias"][i] += slope
        want["context_bias"][j] += slope
    inputs = tf.constant(x["inputs"])
    sources = [inputs, *layer.weights]
    given = {**x, "inputs": inputs}
    found, slopes = gradients(lambda: layer(**given), sources, upstream.astype("float32"))
    np.testing.assert_allclose(found, losses, rtol=1e-5, atol=1e-6)
    assert losses[-1] == 0 and not want["inputs"][-1].any()
    assert all(isinstance(gradient, tf.IndexedSlices) for gradient in slopes[1:])
    names = ["inputs", *(v.name for v in layer.weights)]
    for name, gradient in zip(names, without_rows(slopes), strict=True):
        np.testing.assert_allclose(gradient, want[name], rtol=1e-4, atol=1e-5)


def test_the_task_sums_over_cells_and_counts_those_that_are_no_padding():
    x = cells()
    batch = {"input_word_ids": x["word_ids"], **{n: x[n] for n in ("context_ids", "counts")}}
    task = objectives.GloVe(models.glove(V, D, X_MAX, ALPHA))
    losses = task.model(batch)["losses"]
    assert losses.shape == (CELLS,) and float(task.targets(batch)["cells"]) == CELLS - 1
    total = task.losses(batch, {"losses": losses})["cells"]
    np.testing.assert_allclose(total, np.sum(losses), rtol=1e-6)
