import signal
import subprocess

import numpy as np
import pytest

from tests.support import start_python
from tests.training.elmo_toy import toy_windows

pytestmark = pytest.mark.slow


def start(directory, output):
    command = ["-m", "tests.training.elmo_killed_run", directory, output]
    return start_python(*command, stdout=subprocess.PIPE)


def test_a_killed_run_ends_with_the_same_weights_and_state(tmp_path):
    epoch = toy_windows().steps_per_epoch
    whole = start(tmp_path / "whole", tmp_path / "whole.npz")
    killed = start(tmp_path / "killed", tmp_path / "killed.npz")
    for line in killed.stdout:
        if int(line) == epoch - 1:
            killed.send_signal(signal.SIGKILL)  # while the checkpoint is being written
            break
    killed.stdout.close()
    assert killed.wait() == -signal.SIGKILL
    resumed = start(tmp_path / "killed", tmp_path / "killed.npz")
    assert [int(line) for line in whole.stdout] == list(range(1, epoch + 4))
    steps = [int(line) for line in resumed.stdout]
    assert whole.wait() == 0 and resumed.wait() == 0
    # It resumed before the end of the epoch and crossed it.
    assert 2 <= epoch - 1 <= steps[0] <= epoch + 2 and steps[-1] == epoch + 3

    a, b = np.load(tmp_path / "whole.npz"), np.load(tmp_path / "killed.npz")
    assert len(a.files) == len(b.files) > 20
    assert np.abs(a["arr_0"]).max() > 0.1
    for name in a.files:
        np.testing.assert_array_equal(a[name], b[name])
