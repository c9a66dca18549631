"""The loss of GloVe against a loop over cells, and its training against updates in numpy."""

import keras
import numpy as np
import tensorflow as tf

from tests.layers.reference import randomize
from tfnlp import models, tasks, training
from tfnlp.data import CooccurrenceBatches, Cooccurrences
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
    layer, x = GloVeLoss(V, X_MAX, ALPHA), cells()
    layer.build((B, D))
    randomize(layer, np.random.default_rng(1))
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
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        found = layer(**{**x, "inputs": inputs})
        total = tf.reduce_sum(found * upstream.astype("float32"))
    np.testing.assert_allclose(found, losses, rtol=1e-5, atol=1e-6)
    assert losses[-1] == 0 and not want["inputs"][-1].any()
    variables = {"inputs": inputs, **{v.name: v.value for v in layer.weights}}
    for name, gradient in tape.gradient(total, variables).items():
        assert (name == "inputs") or isinstance(gradient, tf.IndexedSlices)
        np.testing.assert_allclose(tf.convert_to_tensor(gradient), want[name], rtol=1e-4, atol=1e-5)


def make_cells():
    """All cells of a matrix that vectors of the width D can nearly give, and padding in batches."""
    rng = np.random.default_rng(2)
    rows, columns = (a.ravel().astype("int32") for a in np.indices((V, V)))
    vectors = rng.standard_normal((2, V, D))
    values = np.exp((vectors[0] @ vectors[1].T).ravel()).astype("float32")
    return Cooccurrences(rows, columns, values)


def trained(steps, optimizer, batch_size=1, rate=0.05):
    keras.utils.set_random_seed(4)
    model = models.glove(V, D, X_MAX, ALPHA)
    before = [w.numpy().astype("float64") for w in model.weights]
    batches = CooccurrenceBatches(make_cells(), batch_size=batch_size, seed=1)
    trainer = training.Trainer(
        tasks.GloVe(model), optimizer, rate, loss_scale=float(batch_size), clip_norm=None,
        steps_per_call=5,
    )  # fmt: skip
    trainer.fit(batches, steps, progress=False)
    return trainer, batches, before


def test_cell_by_cell_it_is_adagrad_as_in_the_paper():
    trainer, batches, before = trained(200, training.Adagrad())
    table, kernel, bias, context_bias = before
    w = {"kernel": kernel, "bias": bias, "context_bias": context_bias}
    sums = {name: np.ones(value.shape) for name, value in {**w, "table": table}.items()}

    def update(name, array, row, gradient):
        sums[name][row] += gradient**2
        array[row] -= 0.05 * gradient / np.sqrt(sums[name][row])

    for step in range(200):
        cell = batches.batch(step)
        i, j, x = (cell[name][0] for name in ("input_word_ids", "context_ids", "counts"))
        slope, _ = slope_and_loss(table[i], w, i, j, float(x))
        gradients = 2 * slope * kernel[j], 2 * slope * table[i]
        update("table", table, i, gradients[0])
        update("kernel", kernel, j, gradients[1])
        update("bias", bias, i, 2 * slope)
        update("context_bias", context_bias, j, 2 * slope)
    for got, want in zip(trainer.task.model.weights, before, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
