"""Several processes compute the numbers of one."""

import json
import os
import socket
import subprocess

import numpy as np
import pytest

from tests.support import start_python
from tests.training.scale_run import STEPS, train
from tfnlp import training

MODELS = ("bert", "elmo")
pytestmark = pytest.mark.timeout(1200)


def addresses(count):
    """Free ports of this machine."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    finally:
        for each in sockets:
            each.close()


def start(output, *arguments, env=None):
    """A process that trains the toys; its lines come through its `stdout`."""
    output.mkdir(parents=True, exist_ok=True)
    command = ["-m", "tests.training.scale_run", output, *arguments]
    with open(output / "stderr.txt", "w") as stderr:
        return start_python(*command, stdout=subprocess.PIPE, stderr=stderr, env=env)


def finish(runs, outputs):
    """Wait for processes, which must exit with status 0."""
    try:
        for run in runs:
            run.communicate(timeout=600)
    finally:
        for run in runs:
            run.kill()
    for run, output in zip(runs, outputs, strict=True):
        assert run.returncode == 0, (output / "stderr.txt").read_text()[-2000:]


def worker_arguments(places, index):
    return ["--workers", ",".join(places), "--index", index]


def rows(folder, model):
    return json.loads((folder / f"{model}.json").read_text())


def assert_same_rows(found, want, steps, **close):
    """Compare the histories of two runs: the losses, and all measures within a tolerance."""
    for part, count in (("train", steps), ("validation", steps // 2)):
        assert len(found[part]) == len(want[part]) == count
        for a, b in zip(found[part], want[part], strict=True):
            assert list(a) == list(b)  # the order in which measures are shown
            np.testing.assert_allclose(a["loss"], b["loss"], rtol=0, atol=2e-5)
            if close:
                np.testing.assert_allclose(list(a.values()), list(b.values()), **close)
    assert np.ptp([row["loss"] for row in want["train"]]) > 0.01  # no two steps are alike


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The results of this process and of two workers, a folder each."""
    folder = tmp_path_factory.mktemp("scale")
    places = addresses(2)
    outputs = [folder / "worker 0", folder / "worker 1"]
    # One gets its cluster from the command line, the other from the environment.
    task = {"cluster": {"worker": places}, "task": {"type": "worker", "index": 1}}
    more = ["--models", *MODELS, "--directory", folder / "shared"]
    workers = [
        start(outputs[0], *worker_arguments(places, 0), *more),
        start(outputs[1], "--workers", "", *more, env={"TF_CONFIG": json.dumps(task)}),
    ]
    (folder / "one").mkdir()
    for model in MODELS:
        train(model, training.make_strategy("cpu"), folder / "one")
    finish(workers, outputs)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_losses_weights_and_state_of_two_workers_are_those_of_one_process(runs, model):
    places = ("one", "worker 0")
    one, many = (rows(runs / place, model) for place in places)
    assert_same_rows(many, one, STEPS, rtol=2e-5, atol=1e-6)
    one, many, other = (np.load(runs / place / f"{model}.npz") for place in (*places, "worker 1"))
    assert len(one.files) == len(many.files) > 5
    for key in one.files:
        np.testing.assert_allclose(many[key], one[key], atol=2e-5)
        np.testing.assert_array_equal(many[key], other[key])
    names = os.listdir(runs / "shared" / model / "checkpoints")  # which one of them wrote
    assert f"step-{STEPS:010d}" in names and not any(n.startswith("partial") for n in names)
    assert len(list((runs / "shared" / model / "logs").iterdir())) == 1
