"""JAX trains where TensorFlow is missing."""

import pathlib

import pytest

from tests.support import run_python

SCRIPT = pathlib.Path(__file__).parent / "no_tensorflow_run.py"


@pytest.mark.slow
def test_a_run_goes_on_and_ends_with_the_same_weights(tmp_path):
    pytest.importorskip("jax")
    run_python(SCRIPT, tmp_path, env={"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"})
