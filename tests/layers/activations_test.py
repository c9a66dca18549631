import numpy as np
import pytest

from tests.layers.reference import ACTIVATIONS
from tfnlp.layers.activations import activation

POINTS = np.linspace(-6, 6, 241)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "relu", "tanh"])
def test_values(name):
    got = activation(name)(POINTS.astype("float32"))
    np.testing.assert_allclose(got, ACTIVATIONS[name](POINTS), rtol=1e-5, atol=1e-6)


def test_the_two_gelus_are_different():
    exact, tanh = (np.asarray(activation(n)(POINTS)) for n in ("gelu", "gelu_tanh"))
    # Known: the tanh form is off by at most about 5e-4, near |x| = 2.
    assert 1e-4 < np.abs(exact - tanh).max() < 1e-3


def test_unknown_name():
    with pytest.raises(ValueError, match="activation"):
        activation("swish")
