import keras
import numpy as np

from tfnlp.layers.dense import built_dense


def test_built_with_the_right_shapes():
    layer = built_dense(3, 5, keras.initializers.get("ones"), "float32", "d", activation="tanh")
    assert [tuple(w.shape) for w in layer.weights] == [(3, 5), (5,)]
    got = layer(np.full((2, 3), 0.1, "float32"))
    np.testing.assert_allclose(got, np.full((2, 5), np.tanh(0.3)), rtol=1e-5)


def test_kernels_that_share_an_initializer_differ():
    initializer = keras.initializers.TruncatedNormal(stddev=0.02)
    one, two = (
        built_dense(16, 16, initializer, "float32", name).kernel.numpy() for name in ("a", "b")
    )
    assert np.abs(one - two).max() > 1e-3
    assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 0.3
