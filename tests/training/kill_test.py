"""Runs that are killed and resumed end with the same weights as those that are not."""

import signal
import subprocess

import numpy as np
import pytest

from tests.support import start_python
from tests.training.elmo_toy import toy_windows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def start(folder, model, steps):
    """A process that trains a toy with dropout, writes a checkpoint a step and prints the steps."""
    command = ["tests.training.scale_run", folder, "--models", model, "--steps", steps]
    more = ["--dropout", 0.2, "--directory", folder]
    return start_python("-m", *command, *more, stdout=subprocess.PIPE)


def kill(run, step):
    """Kill a run while it writes the checkpoint of a step."""
    for line in run.stdout:
        if int(line) == step:
            run.send_signal(signal.SIGKILL)
            break
    run.stdout.close()
    assert run.wait() == -signal.SIGKILL


@pytest.mark.parametrize("model", ["bert", "electra", "elmo", "gpt"])
def test_a_killed_run_ends_bit_identical(model, tmp_path):
    epoch = toy_windows().steps_per_epoch  # ELMo's run, and GPT's, cross the end of an epoch
    steps, kills = {
        "bert": (12, (4, 8)), "electra": (9, (4,)), "elmo": (epoch + 3, (epoch - 1,)),
        "gpt": (9, (4,)),
    }[model]  # fmt: skip
    whole = start(tmp_path / "whole", model, steps)
    for step in kills:
        kill(start(tmp_path / "killed", model, steps), step)
    resumed = start(tmp_path / "killed", model, steps)
    assert [int(line) for line in whole.stdout] == list(range(1, steps + 1))
    done = [int(line) for line in resumed.stdout]
    assert whole.wait() == 0 and resumed.wait() == 0
    assert kills[-1] - 1 <= done[0] <= kills[-1] + 3 and done[-1] == steps
    a, b = (np.load(tmp_path / name / f"{model}.npz") for name in ("whole", "killed"))
    assert len(a.files) == len(b.files) >= 16
    for name in a.files:
        np.testing.assert_array_equal(a[name], b[name])


def test_sigterm_leaves_a_checkpoint_of_the_step_it_came_in(tmp_path):
    run = start(tmp_path, "bert", 12)
    for line in run.stdout:
        if int(line) == 3:
            run.send_signal(signal.SIGTERM)
    assert run.wait() != 0
    checkpoints = sorted(p.name for p in (tmp_path / "bert" / "checkpoints").glob("step-*"))
    assert checkpoints[-1] >= "step-0000000003"
    assert not (tmp_path / "bert.npz").exists()
