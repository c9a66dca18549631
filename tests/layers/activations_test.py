import numpy as np
import pytest

from tests.layers.reference import ACTIVATIONS
from tfnlp.layers.activations import activation

POINTS = np.linspace(-6, 6, 241)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "relu", "tanh"])
def test_values(name):
    got = activation(name)(POINTS.astype("float32"))
    np.testing.assert_allclose(got, ACTIVATIONS[name](POINTS), rtol=1e-5, atol=1e-6)


def test_unknown_name():
    with pytest.raises(ValueError, match="activation"):
        activation("swish")
