import numpy as np
import pytest
import tensorflow as tf

from tests.layers.gradients import gradients
from tfnlp.layers import SentencePooling
from tfnlp.settings.use import POOLINGS

MASK = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]], bool)
X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype("float32") - 1


def reference(x, mask, pooling, normalize):
    """One row at a time, of its real tokens alone."""
    found = np.zeros((len(x), x.shape[-1]))
    for b, real in enumerate(mask):
        h = x[b][real].astype("float64")
        if len(h):
            n = np.arange(1, len(h) + 1)[:, None]
            found[b] = {
                "mean": h.mean(0), "max": h.max(0), "cls": h[0], "last": h[-1],
                "mean_sqrt_len": h.sum(0) / len(h) ** 0.5, "weightedmean": (n * h).sum(0) / n.sum(),
            }[pooling]  # fmt: skip
            if normalize:
                found[b] /= np.linalg.norm(found[b])
    return found


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_formula(pooling, normalize):
    layer = SentencePooling(pooling, normalize)
    want = reference(X, MASK, pooling, normalize)
    np.testing.assert_allclose(layer(X, mask=MASK), want, rtol=1e-5, atol=1e-6)
    whole = reference(X, np.ones_like(MASK), pooling, normalize)
    np.testing.assert_allclose(layer(X), whole, rtol=1e-5, atol=1e-6)


def test_several_poolings_without_the_tokens_of_a_prompt():
    """By hand: of the tokens 1 to 4 the first is the prompt's, of the tokens 2 and 3 it is 2."""
    x = np.tile(np.array([1.0, 2.0, 3.0, 4.0], "float32")[None, :, None], (3, 1, 1))
    names = ("cls", "last", "mean", "mean_sqrt_len", "weightedmean", "max")
    found = SentencePooling(names, skip=1)(x, mask=MASK)
    want = [2, 4, 3, 9 / 3**0.5, (2 * 2 + 3 * 3 + 4 * 4) / 9, 4]
    np.testing.assert_allclose(found, [want, [3] * 6, [0] * 6], rtol=1e-6)


def test_a_row_without_tokens_has_finite_gradients():
    x = tf.constant(X)
    for pooling in POOLINGS:
        layer = SentencePooling(pooling, True)
        _, (gradient,) = gradients(lambda f=layer: f(x, mask=MASK) ** 3, [x])
        gradient = gradient.numpy()
        assert np.isfinite(gradient).all() and not gradient[2].any()
        assert np.abs(gradient[1][MASK[1]]).max() > 0 and not gradient[1][~MASK[1]].any()
