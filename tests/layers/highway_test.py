import numpy as np
import pytest

from tests.layers.reference import ACTIVATIONS, randomize, sigmoid
from tfnlp.layers import Highway


def reference(x, layer, activation):
    """Element by element, from the formula."""
    w_t, b_t, w_c, b_c = (
        np.asarray(w, "float64")
        for w in (
            layer.transform_kernel,
            layer.transform_bias,
            layer.carry_kernel,
            layer.carry_bias_weight,
        )
    )
    gate = sigmoid(x @ w_c + b_c)
    return gate * ACTIVATIONS[activation](x @ w_t + b_t) + (1 - gate) * x


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_formula(activation):
    rng = np.random.default_rng(0)
    layer = Highway(activation)
    layer.build((None, 5))
    randomize(layer, rng)
    x = rng.standard_normal((3, 4, 5))
    np.testing.assert_allclose(
        layer(x.astype("float32")), reference(x, layer, activation), rtol=1e-5, atol=1e-6
    )


def test_a_new_layer_carries_most_of_its_input():
    layer = Highway(carry_bias=-2.0)
    layer.build((1, 4))
    np.testing.assert_array_equal(layer.carry_bias_weight, np.full(4, -2, "float32"))
    np.testing.assert_array_equal(layer.transform_bias, np.zeros(4))
