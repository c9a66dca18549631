import random
import signal
import subprocess

import numpy as np
import pytest

from tests.support import start_python

pytestmark = pytest.mark.slow


def start(directory, output):
    command = ["-m", "tests.training.killed_run", directory, output]
    return start_python(*command, stdout=subprocess.PIPE)


def test_run_killed_twice_ends_bit_identical(tmp_path):
    whole = start(tmp_path / "whole", tmp_path / "whole.npz")
    assert [int(line) for line in whole.stdout] == list(range(1, 13))
    assert whole.wait() == 0

    dice = random.Random(3)
    for kill_at in (dice.randint(2, 5), dice.randint(7, 10)):
        run = start(tmp_path / "killed", tmp_path / "killed.npz")
        for line in run.stdout:
            if int(line) == kill_at:
                run.send_signal(signal.SIGKILL)  # while the checkpoint is being written
                break
        run.stdout.close()
        assert run.wait() == -signal.SIGKILL
    last = start(tmp_path / "killed", tmp_path / "killed.npz")
    steps = [int(line) for line in last.stdout]
    assert last.wait() == 0
    assert 6 <= steps[0] <= 11 and steps[-1] == 12  # it resumed and did not start again

    a, b = np.load(tmp_path / "whole.npz"), np.load(tmp_path / "killed.npz")
    assert len(a.files) == len(b.files) > 20
    for name in a.files:
        np.testing.assert_array_equal(a[name], b[name])


def test_sigterm_leaves_a_checkpoint_of_the_step_it_came_in(tmp_path):
    run = start(tmp_path / "run", tmp_path / "run.npz")
    for line in run.stdout:
        if int(line) == 3:
            run.send_signal(signal.SIGTERM)
    assert run.wait() != 0
    checkpoints = sorted(p.name for p in (tmp_path / "run" / "checkpoints").glob("step-*"))
    assert checkpoints[-1] >= "step-0000000003"
    assert not (tmp_path / "run.npz").exists()
