"""Measurements that are only shown: speeds and profiles."""

import glob
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import ROOT, run_python
from tests.training.toy import ToyBatches, assert_same, toy_trainer, weights
from tfnlp.training.monitor import Monitor, Profile

pytestmark = pytest.mark.slow

STEPS = 5
RUN = dict(log_every=2, evaluate_every=STEPS, validation=[ToyBatches(seed=9).batch(0)])
FIGURES = {"tokens_per_second", "steps_per_second", "input_wait", "memory_gb"}


def points(folder):
    """The points of the event file in a folder: dict of (tag, step) to value."""
    found = {}
    for path in glob.glob(str(folder / "events.*")):
        for record in tf.data.TFRecordDataset(path):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                if value.metadata.plugin_data.plugin_name == "scalars":
                    found[value.tag, event.step] = float(tf.make_ndarray(value.tensor))
    return found


@pytest.fixture(scope="module")
def monitored(tmp_path_factory):
    """A run with all displays, summaries and a profile: (trainer, folder)."""
    folder = tmp_path_factory.mktemp("run")
    trainer = toy_trainer(dropout=0.1, steps_per_call=2, directory=folder)
    trainer.fit(ToyBatches(), STEPS, **RUN, profile=(2, 4))
    return trainer, folder


def test_monitoring_changes_no_bit(monitored):
    trainer, folder = monitored
    plain = toy_trainer(dropout=0.1, steps_per_call=2)
    history = plain.fit(ToyBatches(), STEPS, **RUN, progress=False)
    assert_same(weights(plain), weights(trainer))
    assert history.state() == trainer.history.state()
    (path,) = glob.glob(str(folder / "checkpoints" / "step-*" / "state.json"))
    with open(path) as file:
        kept = json.loads(json.loads(file.read())["state"])["history"]
    assert kept == history.state()
    assert not any(name in json.dumps(kept) for name in ("work", "second", "wait", "memory"))


def test_tensorboard_has_every_figure(monitored):
    trainer, folder = monitored
    found = points(folder / "logs")
    names = {"loss", "learning_rate", "gradient_norm", *FIGURES}
    for step in (4, STEPS):  # the first call, to step 2, isn't timed
        for name in names:
            assert np.isfinite(found[f"train/{name}", step]), name
        assert 0 <= found["train/input_wait", step] <= 1
        assert found["train/tokens_per_second", step] > found["train/steps_per_second", step]
    assert ("train/tokens_per_second", 2) not in found
    row = trainer.history.train[-1]
    np.testing.assert_allclose(found["train/loss", STEPS], row["loss"], rtol=1e-6)
    row = trainer.history.validation[-1]
    np.testing.assert_allclose(found["validation/loss", STEPS], row["loss"], rtol=1e-6)


def assert_profiled(folder, operation):
    (path,) = glob.glob(str(folder / "logs" / "plugins" / "profile" / "*" / "*.xplane.pb"))
    with open(path, "rb") as file:
        profile = file.read()
    assert operation in profile and b"step_num" in profile


def test_profile_is_written(monitored):
    assert_profiled(monitored[1], b"MatMul")


IN_JAX = """
import pathlib, sys
from tests.training.toy import ToyBatches, toy_trainer
trainer = toy_trainer(steps_per_call=2, directory=pathlib.Path(sys.argv[1]))
trainer.fit(ToyBatches(), 6, log_every=2, evaluate_every=6, profile=(2, 4))
"""


@pytest.mark.long
def test_speeds_and_a_profile_are_written_in_jax(tmp_path):
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    run_python(IN_JAX, tmp_path, folder=ROOT, env=env)
    found = points(tmp_path / "logs")
    for name in ("loss", "learning_rate", "gradient_norm", *FIGURES):
        assert np.isfinite(found[f"train/{name}", 6]), name
    assert_profiled(tmp_path, b"dot")


def test_speeds_are_sums_over_time():
    now = [0.0]
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    seconds = Monitor(model, lambda: now[0])

    def call(duration, steps=2.0, tokens=100.0, waited=0.0):
        with seconds:
            now[0] += duration
        totals = {"steps": steps, "work/tokens": tokens, "work/waited": waited, "loss/x": 1.0}
        assert seconds.take(totals) == {"steps": steps, "loss/x": 1.0}
        now[0] += 1000.0  # time between calls is not training

    call(50.0)  # traces
    assert set(seconds.row()) == {"memory_gb"}
    call(1.0, waited=0.5)
    call(3.0, tokens=300.0, waited=0.1)
    row = seconds.row()
    del row["memory_gb"]
    want = {"tokens_per_second": 100.0, "steps_per_second": 1.0, "input_wait": 0.15}
    assert row == pytest.approx(want)
    for _ in range(100):
        call(1.0, tokens=7.0)
    assert seconds.recent()["tokens_per_second"] == pytest.approx(7.0, rel=1e-2)
    assert seconds.recent()["input_wait"] == pytest.approx(0.0, abs=1e-3)
    assert seconds.row()["tokens_per_second"] == pytest.approx(7.0)


def test_bad_profiles_are_named(tmp_path):
    with pytest.raises(ValueError, match="directory"):
        Profile(None, (2, 4), 0)
    with pytest.raises(ValueError, match="profile"):
        Profile(str(tmp_path), (4, 4), 0)
    with pytest.warns(UserWarning, match="nothing was profiled"):
        with Profile(str(tmp_path), (2, 4), 10) as profile:
            with profile.of(10, 12):
                pass
    assert not list(tmp_path.iterdir())
