"""Several processes train with JAX as one does."""

import json
import os
import signal

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.support import run_python, start_python
from tests.training.engines_test import MODELS, STEPS, start, trained
from tests.training.scale_test import (
    addresses,
    assert_same_rows,
    finish,
    rows,
    worker_arguments,
)

FEW = ("--draw", "--save-every", 25)
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def pair(folder, *arguments, **settings):
    """Two workers that train in one directory, and the folders of what each of them returns."""
    places = addresses(2)
    outputs = [folder / f"worker {i}" for i in range(2)]
    arguments = ["--directory", folder / "shared", *arguments]
    return outputs, [
        start(output, "jax", *worker_arguments(places, i), *arguments, **settings)
        for i, output in enumerate(outputs)
    ]


def said(output):
    return (output / "stderr.txt").read_text()


def arrays(output, model):
    loaded = np.load(output / f"{model}.npz")
    return [loaded[name] for name in loaded.files]


def checkpoint(directory, model, step):
    """The arrays of a checkpoint, by name, without what is left of the biases of keys.

    A key's bias adds the same to all logits of a query, so its gradient is 0 but for rounding,
    which Adam makes steps of.
    """
    path = directory / model / "checkpoints" / f"step-{step:010d}" / "variables.safetensors"
    found = load_file(path)
    for name, value in found.items():
        if "attention/qkv/bias" in name:
            np.split(value, 3)[1][:] = 0
        elif "attention/key_value/bias" in name:
            np.split(value, 2)[0][:] = 0
    return found


def assert_same_end(shared, other, model):
    """Compare weights, slots and state at the end of two runs."""
    one, two = (checkpoint(f, model, STEPS) for f in (shared, other))
    assert one.keys() == two.keys()
    # The Transformer's Adam (epsilon 1e-9) makes steps of the rounding of tiny gradients, too.
    most = 1e-4 if model == "transformer" else 2e-5
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=0, atol=most, err_msg=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def in_one(folder):
    """One process with one device."""
    shared = folder / "one" / "shared"
    return trained(folder / "one", "jax", *FEW, "--directory", shared)


@pytest.fixture(scope="module")
def in_two(folder):
    """Two processes with two devices each."""
    outputs, runs = pair(folder / "two", *FEW, "--shard-optimizer", devices=2)
    finish(runs, outputs)
    return outputs


@pytest.mark.parametrize("model", MODELS)
def test_losses_weights_and_checkpoints_are_those_of_one_process(in_one, in_two, model):
    want = rows(in_one, model)
    for output in in_two:
        assert_same_rows(rows(output, model), want, STEPS)
    for a, b in zip(*(arrays(output, model) for output in in_two), strict=True):
        np.testing.assert_array_equal(a, b)
    shared = in_two[0].parent / "shared"
    assert_same_end(in_one / "shared", shared, model)
    assert len(list((shared / model / "logs").iterdir())) == 1  # the first worker alone writes


def test_each_worker_has_whole_values_between_calls(tmp_path):
    places = addresses(2)
    tasks = [
        {"cluster": {"worker": places}, "task": {"type": "worker", "index": i}} for i in range(2)
    ]
    script, outputs = "tests.training.jax_workers_run", [tmp_path / str(i) for i in range(2)]
    flags = "--xla_force_host_platform_device_count=2"
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    runs = []
    for output, task in zip(outputs, tasks, strict=True):
        output.mkdir()
        with open(output / "stderr.txt", "w") as stderr:
            more = {**env, "TF_CONFIG": json.dumps(task)}
            runs.append(start_python("-m", script, output, stderr=stderr, env=more))
    finish(runs, outputs)
    one, two = (json.loads((output / "found.json").read_text()) for output in outputs)
    assert one.pop("drawn") != two.pop("drawn")  # each process has drawn other weights
    assert one == two
    assert one["gathered"] == [[-(2**62) - 1, 0, 5], [-(2**62), 1, 5]]
    assert one["before"] != one["after"] and one["inherited"] == []
    # What a function reads from the model in the middle of training is what the trainer measures.
    np.testing.assert_allclose(one["read"], one["measured"], rtol=1e-5)


def test_multi_worker_comes_before_anything_else_in_jax():
    code = (
        "import jax; jax.devices()\n"
        "from tfnlp import training\n"
        "training.make_strategy('multi_worker', workers=['127.0.0.1:1', '127.0.0.1:2'], index=1)"
    )
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    found = run_python(code, env=env, check=False)
    assert "before anything else runs in JAX" in found.stderr.strip().splitlines()[-1]


ONE_TOY = ("--dropout", 0.2)


@pytest.fixture(scope="module")
def whole(folder):
    outputs, runs = pair(folder / "whole", *ONE_TOY, models=["gpt"], steps=8)
    finish(runs, outputs)
    return outputs


def ends_as(whole, folder):
    """Start the workers again; they must resume and end as those that were not stopped."""
    outputs, again = pair(folder, *ONE_TOY, models=["gpt"], steps=8)
    first = int(again[1].stdout.readline())
    finish(again, outputs)
    assert 3 <= first <= 6
    for a, b in zip(whole, outputs, strict=True):
        for x, y in zip(arrays(a, "gpt"), arrays(b, "gpt"), strict=True):
            np.testing.assert_array_equal(x, y)


def signalled(folder, index, number):
    """Two workers, one of which gets a signal after its third step."""
    outputs, runs = pair(folder, *ONE_TOY, models=["gpt"], steps=8)
    next(line for line in runs[index].stdout if int(line) == 3)
    runs[index].send_signal(number)
    return outputs, runs


@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_worker_is_named_by_the_other_and_both_resume(whole, tmp_path, killed):
    outputs, runs = signalled(tmp_path, killed, signal.SIGKILL)
    left = 1 - killed
    runs[left].communicate(timeout=300)
    runs[killed].wait()
    line = said(outputs[left]).strip().splitlines()[-1]
    assert runs[left].returncode == 1
    assert line.startswith(f"tfnlp.training.workers.WorkerLost: worker {killed} (127.0.0.1:")
    ends_as(whole, tmp_path)


def test_sigterm_to_one_worker_stops_both_with_a_checkpoint(whole, tmp_path):
    outputs, runs = signalled(tmp_path, 1, signal.SIGTERM)
    for run, output in zip(runs, outputs, strict=True):
        run.communicate(timeout=300)
        assert run.returncode not in (0, -signal.SIGTERM)
        assert "KeyboardInterrupt: stopped at step" in said(output)
    names = os.listdir(tmp_path / "shared" / "gpt" / "checkpoints")
    assert max(names) >= "step-0000000003" and not any(n.startswith("partial") for n in names)
    ends_as(whole, tmp_path)
