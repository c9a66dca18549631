"""Every model with plain Keras under JAX: `compile`, `fit`, `predict`, `save`, and TensorFlow's
predictions with the same weights."""

import keras
import numpy as np
import pytest

from tests import backends
from tests.models.keras_fit import MODELS, made, predicted

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
table = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a process with JAX writes its predictions and its models."""
    return tmp_path_factory.mktemp("jax")


@pytest.fixture(scope="module")
def computed(request, folder):
    names = {params["name"] for params in backends.tested(request)}
    return backends.computed("tests.models.keras_fit", "jax", names, folder)


@pytest.fixture
def in_jax(request, computed):
    """The values of the model of this test by key."""
    return backends.of_row(computed, request.getfixturevalue("name"))


def part(values, name):
    return {
        key.removeprefix(f"{name}/"): y for key, y in values.items() if key.startswith(f"{name}/")
    }


def assert_close(found, expected, tolerance=1e-4):
    assert found.keys() == expected.keys() and found
    for path, y in expected.items():
        size = max(1.0, np.abs(y[np.abs(y) < 1e8]).max(initial=0))
        np.testing.assert_allclose(found[path], y, rtol=tolerance, atol=tolerance * size)


@table
def test_predictions_are_those_of_tensorflow(name, in_jax):
    assert_close(part(in_jax, "before"), predicted(*made(name)))


@table
def test_fit_trains(name, in_jax):
    assert np.isfinite(in_jax["loss"])
    assert in_jax["moved"].max() > 1e-4
    before, after = part(in_jax, "before"), part(in_jax, "after")
    assert any(np.abs(after[path] - y).max() > 1e-4 for path, y in before.items())
    assert all(np.isfinite(y).all() for y in after.values())


@table
def test_files_are_read_under_both_backends(name, in_jax, folder):
    after = part(in_jax, "after")
    assert_close(part(in_jax, "loaded"), after, 1e-6)
    model = keras.models.load_model(folder / f"{name}.keras")
    assert_close(predicted(model, made(name)[1]), after)
