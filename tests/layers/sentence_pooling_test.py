import numpy as np
import pytest

from tfnlp.layers import SentencePooling

MASK = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]], bool)
X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype("float32") - 1


def reference(x, mask, pooling, normalize):
    """One row at a time, of its real tokens alone."""
    found = np.zeros((len(x), x.shape[-1]))
    for b, real in enumerate(mask):
        h = x[b][real].astype("float64")
        if len(h):
            found[b] = {"mean": h.mean(0), "max": h.max(0), "cls": h[0], "last": h[-1]}[pooling]
            if normalize:
                found[b] /= np.linalg.norm(found[b])
    return found


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
def test_formula(pooling, normalize):
    layer = SentencePooling(pooling, normalize)
    want = reference(X, MASK, pooling, normalize)
    np.testing.assert_allclose(layer(X, mask=MASK), want, rtol=1e-5, atol=1e-6)
    whole = reference(X, np.ones_like(MASK), pooling, normalize)
    np.testing.assert_allclose(layer(X), whole, rtol=1e-5, atol=1e-6)


def test_a_row_without_tokens_has_finite_gradients():
    import tensorflow as tf

    x = tf.Variable(X)
    for pooling in ("mean", "cls", "max", "last"):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(SentencePooling(pooling, True)(x, mask=MASK) ** 3)
        gradient = tape.gradient(loss, x).numpy()
        assert np.isfinite(gradient).all() and not gradient[2].any()
        assert np.abs(gradient[1][MASK[1]]).max() > 0 and not gradient[1][~MASK[1]].any()
