"""The loss of GloVe against a loop over cells."""

import numpy as np
import tensorflow as tf

from tests.layers.gradients import gradients, without_rows
from tests.layers.reference import built
from tfnlp import models, objectives
from tfnlp.layers import GloVeLoss

V, D, B, X_MAX, ALPHA = 9, 4, 6, 10.0, 0.6


def cells():
    rng = np.random.default_rng(0)
    return {
        "inputs": rng.standard_normal((B, D)).astype("float32"),
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
    (layer, _), x = built(GloVeLoss(V, X_MAX, ALPHA), (B, D), seed=1), cells()
    w = {v.name: np.asarray(v, "float64") for v in layer.weights}
    upstream = np.arange(1.0, B + 1)
    want = {name: np.zeros(value.shape) for name, value in w.items()}
    want["inputs"], losses = np.zeros((B, D)), np.zeros(B)
    for n in range(B):
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
    assert losses.shape == (B,) and float(task.targets(batch)["cells"]) == B - 1
    total = task.losses(batch, {"losses": losses})["cells"]
    np.testing.assert_allclose(total, np.sum(losses), rtol=1e-6)
