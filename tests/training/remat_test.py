"""A `Trainer` with rematerialisation trains alike, on both engines."""

import numpy as np
import pytest

from tests.support import ROOT, run_python
from tests.training import toy
from tests.training.scale_run import TOYS
from tfnlp import training

STEPS = 4


def check():
    """With dropout, which draws the same masks again; in two micro-batches or with state."""
    for name, accumulation in (("bert", 2), ("elmo", 1)):
        losses, weights = [], []
        for remat in ("none", "full"):
            more = dict(accumulation=accumulation, remat=remat, dropout=0.2)
            trainer, data, _ = TOYS[name](training.default_strategy(), **more)
            history = trainer.fit(data, STEPS, log_every=1, progress=False)
            losses.append([row["loss"] for row in history.train])
            weights.append(toy.weights(trainer))
        assert len(set(losses[0])) == STEPS
        np.testing.assert_allclose(*losses, rtol=2e-6, err_msg=name)
        toy.assert_same(*weights, rtol=0, atol=2e-6)


@pytest.mark.slow
def test_the_same_training():
    check()


@pytest.mark.long
def test_the_same_training_in_jax():
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    run_python("from tests.training import remat_test; remat_test.check()", env=env, folder=ROOT)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="remat='some'"):
        toy.toy_trainer(remat="some")
