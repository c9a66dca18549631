"""Cross-entropy of logits of any shape, and of a tied table, against NumPy in float64."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers.reference import log_softmax
from tfnlp.layers import LogitBias, TokenEmbedding
from tfnlp.objectives import cross_entropy as losses

V, H = 11, 4
random = np.random.default_rng(2)
IDS = random.integers(0, V, (2, 3)).astype("int32")


def reference(logits, ids):
    """Return `-log softmax(z)_id` of each place."""
    log_p = log_softmax(np.reshape(logits, (*ids.shape, V)))
    return -np.take_along_axis(log_p, ids[..., None], -1)[..., 0]


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_every_place_has_its_loss(backend, monkeypatch):
    """Also in the form for JAX, of which no operation is JAX's own."""
    backends = types.SimpleNamespace(backend=types.SimpleNamespace(backend=lambda: backend))
    monkeypatch.setattr(losses, "keras", backends)
    z = 3 * random.standard_normal((2, 3, V)).astype("float32")
    for shape in ((2, 3), (6,), (1, 3, 2)):
        got = losses.cross_entropy(tf.reshape(z, (*shape, V)), tf.reshape(IDS, shape))
        np.testing.assert_allclose(got, reference(z, IDS.reshape(shape)), rtol=1e-5)


@pytest.mark.parametrize("whole", [0, 10**9])
@pytest.mark.parametrize("rows", [2, None])
def test_a_tied_softmax_takes_batches_of_known_and_unknown_size(rows, whole, monkeypatch):
    monkeypatch.setattr(losses, "_WHOLE", whole)
    monkeypatch.setattr(losses, "_BLOCK", 2 * V)
    table, bias = TokenEmbedding(V, H), LogitBias()
    table.build((None, None))
    bias.build((None, V))
    table.embeddings.assign(random.standard_normal((V, H)))
    bias.bias.assign(random.standard_normal(V))
    h = random.standard_normal((2, 3, H)).astype("float32")
    weights = random.uniform(0, 2, (2, 3)).astype("float32")
    z = h @ np.asarray(table.embeddings).T + np.asarray(bias.bias)
    ids = np.where(weights > 1, z.argmax(-1), IDS).astype("int32")
    sums = tf.function(
        losses.TiedSoftmax(table, bias).sums,
        input_signature=[
            tf.TensorSpec((rows, 3, H)), tf.TensorSpec((rows, 3, V)),
            tf.TensorSpec((rows, 3), tf.int32), tf.TensorSpec((rows, 3)),
        ],
        autograph=False,
    )  # fmt: skip
    loss, hits = sums(h, z.astype("float32"), ids, weights)
    np.testing.assert_allclose(loss, (reference(z, ids) * weights).sum(), rtol=1e-5)
    np.testing.assert_allclose(hits, ((z.argmax(-1) == ids) * weights).sum(), rtol=1e-5)
    assert 0 < hits < weights.sum() and keras.backend.backend() == "tensorflow"


def test_the_number_of_classes_may_be_unknown_until_the_call():
    z, ids = np.float32([[1, 2, 3], [0, 5, 1]]), np.int32([2, 0])
    shapes = [tf.TensorSpec((None, None)), tf.TensorSpec((None,), tf.int32)]
    found = tf.function(losses.cross_entropy, input_signature=shapes)(z, ids)
    want = np.log(np.exp(z).sum(1)) - z[[0, 1], ids]
    np.testing.assert_allclose(found, want, rtol=1e-6)
