"""A `Trainer` with rematerialisation trains alike, on both engines."""

import json

import numpy as np
import pytest

from tests.support import ROOT, run_python
from tests.training import elmo_toy, toy

STEPS = 4


def trained(name, remat):
    """The losses and the weights of a run with dropout, in two micro-batches or with state."""
    if name == "bert":
        trainer = toy.toy_trainer(dropout=0.2, num_layers=2, accumulation=2, remat=remat)
        data = toy.ToyBatches()
    else:
        trainer = elmo_toy.toy_trainer(task=dict(dropout=0.2, num_samples=5), remat=remat)
        data = elmo_toy.toy_windows()
    history = trainer.fit(data, STEPS, log_every=1, progress=False)
    losses = [row["loss"] for row in history.train]
    return losses, [v.numpy() for v in trainer.objective.model.trainable_variables]


def differences():
    """For each toy the losses of both runs, and the largest difference of their weights."""
    found = {}
    for name in ("bert", "elmo"):
        (losses, weights), (again, other) = (trained(name, remat) for remat in ("none", "full"))
        apart = max(np.abs(a - b).max() for a, b in zip(weights, other, strict=True))
        found[name] = {"losses": [losses, again], "weights": float(apart)}
    return found


def assert_same(found):
    """With dropout, which draws the same masks again."""
    for name, run in found.items():
        losses, again = run["losses"]
        assert len(set(losses)) == len(losses) > 1
        np.testing.assert_allclose(again, losses, rtol=2e-6, err_msg=name)
        assert run["weights"] < 2e-6, name


@pytest.mark.slow
def test_the_same_training():
    assert_same(differences())


@pytest.mark.long
def test_the_same_training_in_jax():
    code = "import json; from tests.training import remat_test as test; "
    code += "print(json.dumps(test.differences()))"
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    assert_same(json.loads(run_python(code, env=env, folder=ROOT).stdout.splitlines()[-1]))


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="remat='some'"):
        toy.toy_trainer(remat="some")
