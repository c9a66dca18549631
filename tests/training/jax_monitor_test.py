"""Speeds and a profile of a run under JAX."""

import numpy as np
import pytest

from tests.support import ROOT, run_python
from tests.training.monitor_test import FIGURES, points


@pytest.mark.slow
def test_speeds_and_a_profile_are_written(tmp_path):
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    code = "from tests.training.jax_monitor_run import main; main()"
    run_python(code, tmp_path, folder=ROOT, env=env)
    found = points(tmp_path / "logs")
    for name in ("loss", "learning_rate", "gradient_norm", *FIGURES):
        assert np.isfinite(found[f"train/{name}", 6]), name
    assert found["train/share_of_peak", 6] > 0
    (path,) = (tmp_path / "logs" / "plugins" / "profile").glob("*/*.xplane.pb")
    profile = path.read_bytes()
    assert b"dot" in profile and b"step_num" in profile
