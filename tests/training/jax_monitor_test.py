"""Speeds and a profile of a run under JAX."""

import numpy as np
import pytest

from tests.support import ROOT, run_python
from tests.training.monitor_test import FIGURES, points

RUN = """
import pathlib, sys
from tests.training.toy import ToyBatches, toy_trainer
trainer = toy_trainer(steps_per_call=2, directory=pathlib.Path(sys.argv[1]))
trainer.fit(ToyBatches(), 6, log_every=2, evaluate_every=6, profile=(2, 4))
"""


@pytest.mark.long
def test_speeds_and_a_profile_are_written(tmp_path):
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    run_python(RUN, tmp_path, folder=ROOT, env=env)
    found = points(tmp_path / "logs")
    for name in ("loss", "learning_rate", "gradient_norm", *FIGURES):
        assert np.isfinite(found[f"train/{name}", 6]), name
    (path,) = (tmp_path / "logs" / "plugins" / "profile").glob("*/*.xplane.pb")
    profile = path.read_bytes()
    assert b"dot" in profile and b"step_num" in profile
