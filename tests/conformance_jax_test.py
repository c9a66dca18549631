"""The rows of the conformance table under JAX: values and gradients are those of TensorFlow."""

import ast

import keras
import numpy as np
import pytest

from tests.conformance_calls import arrays, built, cotangents, rng_of
from tests.conformance_table import NOT_ON_JAX
from tests.conformance_values import COMPARED, differentiated, same_draws
from tests.support import QUICK_JAX, ROOT, start_python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
table = pytest.mark.parametrize(
    "row", COMPARED, ids=[row.name.replace(" ", "-") for row in COMPARED]
)


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """All that a process with JAX computed, by `row|name/key`."""
    folder = tmp_path_factory.mktemp("jax")
    with open(folder / "stderr.txt", "w") as stderr:
        env = {"KERAS_BACKEND": "jax", **QUICK_JAX}
        command = ["-m", "tests.conformance_values", folder / "values.npz"]
        process = start_python(*command, stderr=stderr, env=env)
        assert process.wait() == 0, (folder / "stderr.txt").read_text()[-3000:]
    with np.load(folder / "values.npz") as values:
        return dict(values)


@pytest.fixture
def in_jax(request, computed):
    """The values of the row of this test: `values(name)` is a list or a dict by key."""
    row = request.getfixturevalue("row")
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


@table
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


@table
def test_shapes_and_configuration(row, in_jax):
    outputs = in_jax("eager")
    for name in ("shape", "symbolic shape"):
        assert [tuple(shape) for shape in in_jax(name)] == [y.shape for y in outputs]
    assert_close(in_jax("copy"), outputs, 0)
    if row.time:
        assert_close(in_jax("any length"), outputs, 1e-5)


@pytest.mark.parametrize("row", [row for row in COMPARED if row.padded], ids=lambda row: row.name)
def test_padding_changes_nothing(row, in_jax):
    kept = in_jax("kept")
    assert_close(in_jax("other padding"), kept, 1e-5)
    assert_close(in_jax("longer padding"), kept, 1e-5)


@table
def test_bf16_policy(row, in_jax):
    assert tuple(str(dtype) for dtype in in_jax("bf16 dtype")) == row.bf16
    layer, inputs = built(row, rng_of(row))
    with same_draws(row):
        exact = arrays(row.call(layer, inputs))  # processors differ in where they round bf16
    for g, e in zip(in_jax("bf16"), exact, strict=True):
        assert np.abs(g - e).max() < 0.02 * max(1, np.abs(e).max())  # bf16 has 8 bits: 0.004


def test_layers_that_are_not_compared_need_tensorflow():
    """Every other registered layer is named in the table; its module imports TensorFlow."""
    found = {}
    for path in sorted((ROOT / "tfnlp").rglob("*.py")):
        tree = ast.parse(path.read_text())
        decorated = [
            node.name
            for node in tree.body
            if isinstance(node, ast.ClassDef)
            and any("register_keras_serializable" in ast.unparse(d) for d in node.decorator_list)
        ]
        imports = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        found.update({(path, name): "tensorflow" in imports for name in decorated})
    compared = {row.layer.__name__ for row in COMPARED}
    names = {f"tfnlp.{path.relative_to(ROOT / 'tfnlp').parts[0]}.{name}": needs
             for (path, name), needs in found.items()}  # fmt: skip
    assert {name for name in names if not name.startswith("tfnlp.layers.")} == set(NOT_ON_JAX)
    assert all(names[name] for name in NOT_ON_JAX)
    layers = {name.removeprefix("tfnlp.layers.") for name in set(names) - set(NOT_ON_JAX)}
    assert layers == compared
    assert keras.backend.backend() == "tensorflow"  # the process of this test
