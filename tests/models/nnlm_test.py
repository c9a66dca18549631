"""The NNLM against equation 1 in numpy, and its training against a search by hand."""

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.reference import randomize
from tfnlp.models import nnlm, nnlm_pretrainer

V, C, M, H = 13, 3, 4, 5


def make(direct=False, hidden_size=H, seed=0, **more):
    model = nnlm(V, C, M, hidden_size, direct=direct, **more)
    for layer in model.layers:
        if layer.weights:
            randomize(layer, np.random.default_rng(seed), 0.5)
    return model


def probabilities(model, ids):
    """`softmax(b + W x + U tanh(d + H x))`, float64 `[B, V]`, a word at a time."""
    weights = {
        f"{layer.name}/{w.name}": w.numpy().astype("float64")
        for layer in model.layers
        for w in layer.weights
    }
    kernel, b = weights["softmax/kernel"], weights["softmax/bias"]  # [V, h + (n - 1) m]
    hidden = weights["hidden/bias"].shape[0] if "hidden/bias" in weights else 0
    rows = []
    for context in ids:
        x = np.concatenate([weights["token_embedding/embeddings"][i] for i in context])
        y = b.copy()
        if hidden:
            a = np.tanh(weights["hidden/bias"] + weights["hidden/kernel"].T @ x)
            y += kernel[:, :hidden] @ a  # U
        if kernel.shape[1] > hidden:
            y += kernel[:, hidden:] @ x  # W
        rows.append(np.exp(y) / np.exp(y).sum())
    return np.array(rows)


def draw(rows=6):
    rng = np.random.default_rng(3)
    return rng.integers(0, V, (rows, C)).astype("int32"), rng.integers(0, V, rows).astype("int32")


@pytest.mark.parametrize("direct, hidden_size", [(False, H), (True, H), (True, 0)])
def test_probabilities_are_equation_1(direct, hidden_size):
    model, (ids, targets) = make(direct, hidden_size), draw()
    outputs = model({"input_word_ids": ids})
    want = probabilities(model, ids)
    np.testing.assert_allclose(tf.nn.softmax(outputs["lm_logits"]), want, rtol=1e-5)
    losses = nnlm_pretrainer(model)({"input_word_ids": ids, "targets": targets})["losses"]
    np.testing.assert_allclose(losses, -np.log(want[np.arange(6), targets]), rtol=1e-5)
    table = model.get_layer("token_embedding").embeddings
    np.testing.assert_array_equal(outputs["word_emb"], tf.gather(table, ids))
    assert outputs["features"].shape == (6, hidden_size + C * M * direct)
