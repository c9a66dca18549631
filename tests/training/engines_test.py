"""TensorFlow and JAX train alike, and a run goes from one to the other."""

import json

import numpy as np
import pytest

from tests.support import ROOT, run_python
from tests.training import scale_test
from tests.training.scale_run import train
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


def rows(folder, model):
    return json.loads((folder / f"{model}.json").read_text())


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
    for part, count in (("train", STEPS), ("validation", STEPS // 2)):
        assert len(found[part]) == len(want[part]) == count
        for a, b in zip(found[part], want[part], strict=True):
            assert a.keys() == b.keys()
            np.testing.assert_allclose(a["loss"], b["loss"], rtol=0, atol=2e-5)
            np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=1e-3, atol=1e-3)
            assert list(a) == list(b)  # the order in which measures are shown
    assert np.ptp([row["loss"] for row in want["train"]]) > 0.05  # no two steps are alike


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
