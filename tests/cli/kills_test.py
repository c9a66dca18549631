"""Runs that are killed or stopped, also one of two processes, end with the weights of others."""

import os
import pathlib
import signal
import subprocess

import numpy as np
import pytest

from tests.cli.command import checkpoint, tfnlp, write_texts
from tests.support import kill_at_checkpoint, shown_on, start_python
from tests.training.scale_test import addresses
from tfnlp.training import Trainer


def assert_same(one, other):
    assert shown_on(one / "page.html") == shown_on(other / "page.html")
    for file in (one / "logs").rglob("projector*/*"):
        assert (other / file.relative_to(one)).read_bytes() == file.read_bytes()
    one, other = checkpoint(one), checkpoint(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("family", ["electra", "distilbert", "albert", "roberta"])
def test_a_killed_run_ends_bit_identical(family, made, tmp_path):
    command = made(family).command(tmp_path / "run", steps_per_call=1, checkpoint_every=1)
    kill_at_checkpoint(start_python("-m", "tfnlp", *command), tmp_path / "run")
    assert tfnlp(*command) == 0
    assert_same(made(family).run, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["word2vec", "glove"])
def test_a_run_that_was_stopped_ends_bit_identical(family, made, tmp_path, monkeypatch):
    steps = Trainer.train_steps

    def stopped(self, iterator, count):
        if self.step >= 6:
            raise KeyboardInterrupt("stop")
        return steps.__get__(self, Trainer)(iterator, count)

    changes = {"checkpoint_every": 4, "evaluate_every": 2}
    command = made(family).command(tmp_path / "run", **changes)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_steps", stopped)
        assert tfnlp(*command) == 130
    assert max(x.name for x in (tmp_path / "run" / "checkpoints").iterdir()).endswith("4")
    assert tfnlp(*command) == 0
    assert_same(made(family).run, tmp_path / "run")


TOY = "--size mini --num-layers 1 --hidden-size 16 --num-heads 2 --seq-length 16 --batch-size 8"
TOY += " --steps 12 --steps-per-call 1 --evaluate-every 2 --evaluate-batches 1 --vocab-size 300"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("text"), 30_000, words=11, held_out=60)[0]


def start(text, run, places, index, *more):
    """One worker; its stderr is a pipe, its stdout a file beside the run."""
    command = ["pretrain", "gpt", "--input", text, "--layout", "lines", "--output", run]
    command += [*TOY.split(), *more]
    if places:
        command += ["--workers", ",".join(places), "--index", index]
    with open(f"{run}.{index}.txt", "w") as stdout:
        return start_python("-m", "tfnlp", *command, stdout=stdout, stderr=subprocess.PIPE)


def wait_for(process, said):
    """Reads stderr up to the line that holds `said`."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if said in line:
            return
    raise AssertionError(f"{said!r} was never said: {''.join(lines)[-3000:]}")


def end(processes):
    """What each said on stderr; all must end well."""
    try:
        said = [process.communicate(timeout=600)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, text in zip(processes, said, strict=True):
        assert process.returncode == 0, text[-3000:]
    return said


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory):
    """A run of two workers that nothing happens to."""
    folder = tmp_path_factory.mktemp("whole")
    places = addresses(2)
    end([start(text, folder / "run", places, i) for i in range(2)])
    return folder / "run"


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_killed_worker_comes_back_and_the_weights_are_the_same(whole, text, tmp_path):
    first, second = (pathlib.Path(f"{whole}.{i}.txt").read_text() for i in range(2))
    assert "held out, after" in first and f"run: {whole}" in first and second == ""
    places = addresses(2)
    run = tmp_path / "run"
    workers = [start(text, run, places, i, "--restart") for i in range(2)]
    wait_for(workers[0], "step 4 held out")
    workers[1].send_signal(signal.SIGKILL)
    workers[1].communicate()
    wait_for(workers[0], f"worker 1 ({places[1]}) does not answer any more; starting again")
    workers[1] = start(text, run, places, 1, "--restart")
    end(workers)
    assert {max(os.listdir(r / "checkpoints")) for r in (whole, run)} == {"step-0000000012"}
    one, other = checkpoint(whole), checkpoint(run)
    assert set(one) == set(other) and len(one) > 20
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value, err_msg=name)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_interrupting_one_worker_stops_both_with_a_checkpoint(text, tmp_path):
    places = addresses(2)
    workers = [start(text, tmp_path / "run", places, i) for i in range(2)]
    wait_for(workers[0], "step 2 held out")
    workers[1].send_signal(signal.SIGTERM)
    said = [worker.communicate(timeout=300)[1] for worker in workers]
    for worker, text_said in zip(workers, said, strict=True):
        assert worker.returncode == 130, text_said
        assert "stopped at step" in text_said and "a checkpoint of step" in text_said
    assert len(list((tmp_path / "run" / "checkpoints").glob("step-*"))) >= 1


@pytest.mark.slow
def test_a_worker_that_never_comes_is_named_and_nothing_is_written(text, tmp_path):
    places = addresses(2)
    worker = start(text, tmp_path / "run", places, 0, "--wait", "2")
    _, said = worker.communicate(timeout=300)
    assert worker.returncode == 1
    assert said.strip().split("\n")[-1].startswith("tfnlp: error: ")
    assert f"worker 1 ({places[1]}) did not start within 2 seconds" in said
    assert not (tmp_path / "run").exists()
