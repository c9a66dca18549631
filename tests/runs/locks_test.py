"""Runs keep other processes out of their folders."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest

from tests.cli.command import error, tfnlp, weights, write_texts
from tests.support import holding, start_python
from tests.training.toy import ToyBatches, toy_trainer


@pytest.mark.parametrize(
    "arguments",
    [
        "pretrain bert --input missing.txt --restart",
        "finetune classify --model missing --train missing.txt --seeds 1 2 --restart",
        "finetune fill --model missing --train missing.txt --restart",
        "examples bert --input missing.txt",
    ],
)
def test_commands_are_refused_before_they_read_or_delete(arguments, tmp_path, capsys):
    if arguments.startswith("examples"):
        pytest.importorskip("apache_beam")
    (tmp_path / "config.json").write_text('{"tfnlp": "0.1.0", "model": "bert"}')
    with holding(tmp_path) as process:
        assert tfnlp(*arguments.split(), "--output", tmp_path) == 1
    assert f"--output {tmp_path} is being written by process {process.pid} " in error(capsys)
    assert sorted(os.listdir(tmp_path)) == [".lock", "config.json"]


def test_a_trainer_is_refused_and_writes_nothing(tmp_path):
    trainer = toy_trainer(directory=tmp_path)
    with holding(tmp_path) as process:
        with pytest.raises(BlockingIOError, match=f"`directory` .* process {process.pid} on "):
            trainer.fit(ToyBatches(), 2, progress=False)
    assert trainer.step == 0 and os.listdir(tmp_path) == [".lock"]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_running_run_is_not_restarted_and_ends_as_if_alone(tmp_path, capsys):
    """A second process with `--restart` and another seed, while the first one trains."""
    text, _ = write_texts(tmp_path, 60_000, 10, 20)
    given = ["pretrain", "word2vec", "--input", text, "--dimension", 8, "--steps", 200]
    given += ["--checkpoint-every", 20, "--steps-per-call", 20]

    def start(run, *more):
        command = ["-m", "tfnlp", *given, "--output", tmp_path / run, *more]
        return start_python(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    first = start("run")
    while not list((tmp_path / "run").glob("checkpoints/step-*")):
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(signal.SIGSTOP)  # it does not end before the second one has been refused
    second = tfnlp(*given, "--output", tmp_path / "run", "--restart", "--seed", 9)
    assert second == 1 and f"by process {first.pid} on " in error(capsys)
    first.kill()
    first.communicate()
    assert json.loads((tmp_path / "run" / ".lock").read_text())["pid"] == first.pid
    # Of two that start together one is refused.
    both = [start("run"), start("run")]
    said = [process.communicate()[1] for process in both]
    assert sorted(process.returncode for process in both) in ([0, 1], [0, 0])
    assert not any("free some space" in line for line in said)
    assert tfnlp(*given, "--output", tmp_path / "alone") == 0
    for one, other in zip(*(weights(tmp_path / run) for run in ("run", "alone")), strict=True):
        np.testing.assert_array_equal(one, other)
