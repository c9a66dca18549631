"""Training a GPT: killed and resumed, or however its batch is split, it ends the same."""

import signal
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from tests.support import start_python
from tests.training.gpt_killed_run import STEPS
from tests.training.gpt_toy import held_out, toy_trainer, toy_windows, weights

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # a busy machine takes its time


def two_replicas():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def train(trainer, steps=4):
    history = trainer.fit(toy_windows(), steps, validation=held_out(), log_every=1, progress=False)
    return history, weights(trainer)


@pytest.fixture(scope="module")
def one_device():
    return train(toy_trainer())


@pytest.mark.parametrize("strategy, accumulation", [(two_replicas, 2), (None, 4)])
def test_every_split_of_the_batch_gives_the_same_numbers(one_device, strategy, accumulation):
    trainer = toy_trainer(strategy and strategy(), accumulation=accumulation)
    history, after = train(trainer)
    for a, b in zip(one_device[1], after, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)
    for a, b in zip(one_device[0].train, history.train, strict=True):
        assert a["gradient_norm"] > 0.3  # so that clipping is at work
        np.testing.assert_allclose(
            [a["loss"], a["gradient_norm"]], [b["loss"], b["gradient_norm"]], rtol=2e-5
        )
    want = one_device[0].validation[-1]
    assert {"loss", "perplexity", "word_perplexity"} <= set(want)
    for key, value in want.items():
        np.testing.assert_allclose(history.validation[-1][key], value, rtol=1e-4)


def start(directory, output):
    command = ["-m", "tests.training.gpt_killed_run", directory, output]
    return start_python(*command, stdout=subprocess.PIPE)


def test_a_killed_run_ends_with_the_same_weights(tmp_path):
    whole = start(tmp_path / "whole", tmp_path / "whole.npz")
    killed = start(tmp_path / "killed", tmp_path / "killed.npz")
    for line in killed.stdout:
        if int(line) == 4:
            killed.send_signal(signal.SIGKILL)  # while the checkpoint is being written
            break
    killed.stdout.close()
    assert killed.wait() == -signal.SIGKILL
    resumed = start(tmp_path / "killed", tmp_path / "killed.npz")
    assert [int(line) for line in whole.stdout] == list(range(1, STEPS + 1))
    steps = [int(line) for line in resumed.stdout]
    assert whole.wait() == 0 and resumed.wait() == 0
    assert 3 <= steps[0] <= 7 and steps[-1] == STEPS  # it did not start again

    a, b = np.load(tmp_path / "whole.npz"), np.load(tmp_path / "killed.npz")
    assert len(a.files) == len(b.files) == 16
    for name in a.files:
        np.testing.assert_array_equal(a[name], b[name])
