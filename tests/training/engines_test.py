"""TensorFlow and JAX train alike, a run goes from one to the other, and killed ones resume."""

import signal

import numpy as np
import pytest

from tests.support import ROOT, run_python
from tests.training import scale_test
from tests.training.elmo_toy import toy_windows
from tests.training.scale_run import train
from tests.training.scale_test import assert_same_rows, rows
from tfnlp import training

MODELS = ("bert", "elmo", "gpt", "transformer")
STEPS = 50
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def start(output, engine, *arguments, models=MODELS, devices=1, steps=STEPS):
    """A process that trains the toys with an engine; its lines come through its `stdout`."""
    flags = f"--xla_force_host_platform_device_count={devices}"
    env = {"KERAS_BACKEND": engine, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    numbers = ["--steps", steps, "--devices", devices]
    return scale_test.start(output, "--models", *models, *numbers, *arguments, env=env)


def trained(output, *arguments, **settings):
    """The folder of a run that is waited for."""
    scale_test.finish([start(output, *arguments, **settings)], [output])
    return output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("engines")


def in_tensorflow(folder, model):
    """The folder of a run in this process."""
    output = folder / "tensorflow"
    output.mkdir(exist_ok=True)
    if not (output / f"{model}.json").exists():
        train(model, training.make_strategy("cpu"), output, STEPS, draw=True)
    return output


@pytest.mark.parametrize(
    "model", ["bert", *(pytest.param(x, marks=pytest.mark.long) for x in MODELS[1:])]
)
def test_losses_are_those_of_tensorflow(folder, model):
    more = dict(models=[model], devices=4)
    in_jax = trained(folder / "jax", "jax", "--draw", "--shard-optimizer", **more)
    want, found = rows(in_tensorflow(folder, model), model), rows(in_jax, model)
    assert_same_rows(found, want, STEPS, rtol=1e-3, atol=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("engines", [("tensorflow", "jax"), ("jax", "tensorflow")])
def test_a_run_goes_on_with_the_other_engine(folder, engines):
    first, second = engines
    runs, output = folder / f"from {first}", folder / f"to {second}"
    models = ("bert", "elmo")
    trained(output, first, "--draw", "--directory", runs, models=models, steps=STEPS // 2)
    trained(output, second, "--draw", "--directory", runs, models=models)
    for model in models:
        want, found = rows(in_tensorflow(folder, model), model), rows(output, model)
        losses = [[row["loss"] for row in run["train"]] for run in (found, want)]
        np.testing.assert_allclose(*losses, rtol=0, atol=2e-5, err_msg=model)


DATA_ENDS = """
from tests.training import toy

class Seven(toy.ToyBatches):
    def dataset(self, first_step=0):
        return super().dataset(first_step).take(7)

trainer = toy.toy_trainer(steps_per_call=4)
trainer.fit(Seven(), 20, log_every=20, evaluate_every=20, progress=False)
"""


@pytest.mark.long
def test_data_that_ends_within_a_call_is_used_to_its_end():
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    found = run_python(DATA_ENDS, env=env, folder=ROOT, check=False)
    line = found.stderr.strip().splitlines()[-1]
    assert line.startswith("ValueError: data ended after step 7 of 20; it must have a batch")


CALLS = 3  # steps of a call, after each of which there is a checkpoint


def writing(folder, model, steps):
    """A process that trains a toy with dropout, writes checkpoints and prints the steps."""
    more = ["--dropout", 0.2, "--directory", folder]
    more += ["--steps-per-call", CALLS, "--every", CALLS, "--save-every", CALLS]
    return start(folder, "jax", *more, models=[model], devices=2, steps=steps)


def kill(run, step):
    """Kill a run while it writes the checkpoint of a step."""
    for line in run.stdout:
        if int(line) >= step:
            run.send_signal(signal.SIGKILL)
            break
    run.stdout.close()
    assert run.wait() == -signal.SIGKILL


@pytest.mark.long
@pytest.mark.parametrize("model", ["bert", "elmo", "gpt"])
def test_a_killed_run_ends_bit_identical(model, tmp_path):
    """With JAX; with TensorFlow see tests/cli/kills_test.py."""
    epoch = toy_windows().steps_per_epoch  # ELMo's run, and GPT's, cross the end of an epoch
    steps, kills = {
        "bert": (12, (4, 8)), "elmo": (epoch + 3, (epoch - 1,)), "gpt": (9, (4,)),
    }[model]  # fmt: skip
    steps += 3 * (CALLS - 1)  # so that it does not end before it is killed
    whole = writing(tmp_path / "whole", model, steps)
    for step in kills:
        kill(writing(tmp_path / "killed", model, steps), step)
    resumed = writing(tmp_path / "killed", model, steps)
    assert [int(line) for line in whole.stdout] == [*range(CALLS, steps, CALLS), steps]
    done = [int(line) for line in resumed.stdout]
    assert whole.wait() == 0 and resumed.wait() == 0
    assert kills[-1] - 1 <= done[0] <= kills[-1] + 3 * CALLS and done[-1] == steps
    a, b = (np.load(tmp_path / name / f"{model}.npz") for name in ("whole", "killed"))
    assert len(a.files) == len(b.files) >= 16
    for name in a.files:
        np.testing.assert_array_equal(a[name], b[name])


@pytest.mark.slow
def test_jax_trains_without_tensorflow(tmp_path):
    pytest.importorskip("jax")
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    run_python(ROOT / "tests/training/no_tensorflow_run.py", tmp_path, env=env)
