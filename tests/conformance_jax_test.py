"""The rows of the conformance table under JAX: values and gradients are those of TensorFlow."""

import numpy as np
import pytest

from tests.conformance_calls import arrays, built, cotangents, rng_of
from tests.conformance_table import table
from tests.conformance_values import COMPARED, differentiated, same_draws
from tests.support import QUICK_JAX, start_python

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def computed(request, tmp_path_factory):
    """All that a process with JAX computed of the rows that are tested, by `row|name/key`."""
    tests = [item for item in request.session.items if item.path == request.path]
    names = {item.callspec.params["row"].name for item in tests}
    folder = tmp_path_factory.mktemp("jax")
    with open(folder / "stderr.txt", "w") as stderr:
        env = {"KERAS_BACKEND": "jax", **QUICK_JAX}
        command = ["-m", "tests.conformance_values", folder / "values.npz", *sorted(names)]
        process = start_python(*command, stderr=stderr, env=env)
        assert process.wait() == 0, (folder / "stderr.txt").read_text()[-3000:]
    with np.load(folder / "values.npz") as values:
        return dict(values)


@pytest.fixture
def in_jax(row, computed):
    """The values of the row of this test: `values(name)` is a list or a dict by key."""
    if f"{row.name}|error" in computed:
        pytest.fail(str(computed[f"{row.name}|error"]))

    def values(name):
        prefix = f"{row.name}|{name}/"
        found = {k.removeprefix(prefix): v for k, v in computed.items() if k.startswith(prefix)}
        return list(found.values()) if "0" in found else found

    return values


def assert_close(found, expected, tolerance=2e-5):
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@table(COMPARED, sampled=True)
def test_outputs_and_gradients_are_those_of_tensorflow(row, in_jax):
    rng = rng_of(row)
    layer, inputs = built(row, rng)
    with same_draws(row):
        weights = cotangents(row.call(layer, inputs), rng)
    outputs, gradients = differentiated(row, layer, inputs, weights)
    assert_close(in_jax("eager"), outputs)
    assert_close(in_jax("compiled"), outputs)
    found = in_jax("gradient")
    assert found.keys() == gradients.keys() and bool(found) == row.gradient
    for name, gradient in gradients.items():
        assert np.isfinite(gradient).all()
        size = max(1.0, np.abs(gradient).max())
        np.testing.assert_allclose(found[name] / size, gradient / size, atol=2e-5, err_msg=name)


@table(COMPARED, sampled=True)
def test_bf16_policy(row, in_jax):
    assert tuple(str(dtype) for dtype in in_jax("bf16 dtype")) == row.bf16
    layer, inputs = built(row, rng_of(row))
    with same_draws(row):
        exact = arrays(row.call(layer, inputs))  # processors differ in where they round bf16
    for g, e in zip(in_jax("bf16"), exact, strict=True):
        assert np.abs(g - e).max() < 0.02 * max(1, np.abs(e).max())  # bf16 has 8 bits: 0.004
