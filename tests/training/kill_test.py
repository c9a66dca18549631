"""Runs that are killed and resumed end with the same weights as those that are not."""

import signal

import numpy as np
import pytest

from tests.training import engines_test
from tests.training.elmo_toy import toy_windows

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


# Engine, devices, and steps of a call, after each of which there is a checkpoint.
engines = pytest.mark.parametrize("engine", [("tensorflow", 1, 1), ("jax", 2, 3)], ids=str)


def start(folder, model, steps, engine):
    """A process that trains a toy with dropout, writes checkpoints and prints the steps."""
    name, devices, calls = engine
    more = ["--dropout", 0.2, "--directory", folder]
    more += ["--steps-per-call", calls, "--every", calls, "--save-every", calls]
    return engines_test.start(folder, name, *more, models=[model], devices=devices, steps=steps)


def kill(run, step):
    """Kill a run while it writes the checkpoint of a step."""
    for line in run.stdout:
        if int(line) >= step:
            run.send_signal(signal.SIGKILL)
            break
    run.stdout.close()
    assert run.wait() == -signal.SIGKILL


@engines
@pytest.mark.parametrize("model", ["bert", "elmo", "gpt"])
def test_a_killed_run_ends_bit_identical(engine, model, tmp_path):
    epoch = toy_windows().steps_per_epoch  # ELMo's run, and GPT's, cross the end of an epoch
    steps, kills = {
        "bert": (12, (4, 8)), "elmo": (epoch + 3, (epoch - 1,)), "gpt": (9, (4,)),
    }[model]  # fmt: skip
    calls = engine[-1]
    steps += 3 * (calls - 1)  # so that it does not end before it is killed
    whole = start(tmp_path / "whole", model, steps, engine)
    for step in kills:
        kill(start(tmp_path / "killed", model, steps, engine), step)
    resumed = start(tmp_path / "killed", model, steps, engine)
    assert [int(line) for line in whole.stdout] == [*range(calls, steps, calls), steps]
    done = [int(line) for line in resumed.stdout]
    assert whole.wait() == 0 and resumed.wait() == 0
    assert kills[-1] - 1 <= done[0] <= kills[-1] + 3 * calls and done[-1] == steps
    a, b = (np.load(tmp_path / name / f"{model}.npz") for name in ("whole", "killed"))
    assert len(a.files) == len(b.files) >= 16
    for name in a.files:
        np.testing.assert_array_equal(a[name], b[name])


@engines
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_a_checkpoint_of_the_step_it_came_in(engine, number, tmp_path):
    before = signal.signal(number, signal.SIG_DFL)  # else one that is ignored here is ignored there
    run = start(tmp_path, "bert", 12, engine)
    signal.signal(number, before)
    for line in run.stdout:
        if int(line) == 3:
            run.send_signal(number)
    assert run.wait() != 0
    checkpoints = sorted(p.name for p in (tmp_path / "bert" / "checkpoints").glob("step-*"))
    assert checkpoints[-1] >= "step-0000000003"
    assert not (tmp_path / "bert.npz").exists()
