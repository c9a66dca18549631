"""A `Trainer` with rematerialisation trains alike, on both engines."""

import json

import numpy as np
import pytest

from tests.support import run_python
from tests.training import toy


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_the_same_training(engine):
    """With dropout, which draws the same masks again; in two micro-batches, and with state."""
    code = "from tests.training.remat_run import main; main()"
    found = run_python(code, env={"KERAS_BACKEND": engine, "JAX_PLATFORMS": "cpu"})
    for name, run in json.loads(found.stdout.splitlines()[-1]).items():
        losses, again = run["losses"]
        assert len(set(losses)) == len(losses) > 1
        np.testing.assert_allclose(again, losses, rtol=2e-6, err_msg=name)
        assert run["weights"] < 2e-6, name


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="remat='some' must be one of none, blocks, full"):
        toy.toy_trainer(remat="some")
