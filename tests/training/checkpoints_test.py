"""Checkpoints: whole or not there, which are kept, what is in them; the mean of the last ones."""

import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from tests.training.toy import ToyBatches, assert_same, toy_model, toy_trainer, weights
from tfnlp.training import Checkpoints, average_checkpoints
from tfnlp.training.checkpoints import drop_slots
from tfnlp.training.run import restore_weights


def make(folder, keep=3):
    variable = tf.Variable([0.0] * 1000)
    return variable, Checkpoints(folder, {"layer/kernel": variable}, keep)


def write(folder, steps, keep=3):
    variable, checkpoints = make(folder, keep)
    for step in steps:
        variable.assign([float(step)] * 1000)
        checkpoints.save(step, {"note": f"at {step}"})
    return checkpoints


def test_restores_variables_and_state(tmp_path):
    write(tmp_path, [1, 2])
    assert make(tmp_path / "new")[1].restore_latest() is None
    variable, checkpoints = make(tmp_path)
    assert checkpoints.restore_latest() == {"step": 2, "note": "at 2"}
    assert (variable.numpy() == 2.0).all()


def test_keeps_the_last_n_and_the_best(tmp_path):
    variable, checkpoints = make(tmp_path, keep=2)
    for step in range(5):
        variable.assign([float(step)] * 1000)
        checkpoints.save(step, {})
        if step in (1, 2):
            checkpoints.save(step, {}, "best")
    assert sorted(os.listdir(tmp_path)) == [
        "best-0000000002",
        "step-0000000003",
        "step-0000000004",
    ]
    assert checkpoints.restore_best()["step"] == 2
    assert (variable.numpy() == 2.0).all()


def test_only_checkpoints_to_go_on_from_have_slots(tmp_path):
    variables = {n: tf.Variable([0.0] * 100) for n in ("model/a.b/c", "optimizer/m/a", "state/x")}
    variables["step"] = tf.Variable(0, dtype=tf.int64)
    checkpoints = Checkpoints(tmp_path / "checkpoints", variables, keep=2)

    def save(step, *kinds):
        for variable in variables.values():
            variable.assign(tf.fill(variable.shape, tf.cast(step, variable.dtype)))
        return [checkpoints.save(step, {"note": "n"}, kind) for kind in kinds]

    def held(path):
        return sorted(load_file(f"{path}/variables.safetensors"))

    every = ["model/a.b/c", "optimizer/m/a", "state/x", "step"]
    (first,), (second, best) = save(1, "step"), save(2, "step", "best")
    assert held(first) == held(second) == every and held(best) == [every[0], *every[2:]]
    save(3)
    assert checkpoints.restore_best()["step"] == 2
    read = {name: float(tf.reduce_max(x)) for name, x in variables.items()}
    assert read == {"model/a.b/c": 2, "optimizer/m/a": 3, "state/x": 2, "step": 2}
    drop_slots(tmp_path)
    drop_slots(tmp_path)  # nothing is left to do
    assert held(first) == held(second) == [every[0], *every[2:]]
    save(4)
    assert checkpoints.restore_latest()["note"] == "n"
    read = {name: float(tf.reduce_max(x)) for name, x in variables.items()}
    assert read == {"model/a.b/c": 2, "optimizer/m/a": 4, "state/x": 2, "step": 2}


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "damage, name",
    [
        (flip_a_bit, "variables.safetensors"),
        (truncate, "variables.safetensors"),
        (flip_a_bit, "state.json"),
        (pathlib.Path.unlink, "state.json"),
    ],
)
def test_corrupt_latest_is_skipped_with_a_warning(tmp_path, damage, name):
    write(tmp_path, [1, 2])
    damage(tmp_path / "step-0000000002" / name)
    variable, checkpoints = make(tmp_path)
    with pytest.warns(UserWarning, match="step-0000000002 cannot be read"):
        assert checkpoints.restore_latest()["step"] == 1
    assert (variable.numpy() == 1.0).all()


def test_numbers_that_are_not_finite_are_as_a_corrupt_checkpoint(tmp_path):
    write(tmp_path, [1])
    variable, checkpoints = make(tmp_path)
    variable.assign([0.0] * 999 + [float("nan")])
    checkpoints.save(2, {})
    with pytest.warns(UserWarning, match="layer/kernel"):
        assert checkpoints.restore_latest()["step"] == 1
    assert (variable.numpy() == 1.0).all()


def test_all_corrupt_is_an_error_and_not_a_fresh_start(tmp_path):
    write(tmp_path, [1, 2])
    for step in (1, 2):
        truncate(tmp_path / f"step-000000000{step}" / "variables.safetensors")
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="checkpoints"):
        make(tmp_path)[1].restore_latest()


def test_other_shapes_are_an_error(tmp_path):
    write(tmp_path, [1])
    checkpoints = Checkpoints(tmp_path, {"layer/kernel": tf.Variable([0.0] * 7)})
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="other sizes"):
        checkpoints.restore_latest()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of four checkpoints, and the weights at each of them."""
    run, saved = tmp_path_factory.mktemp("run"), []
    trainer = toy_trainer(directory=run, keep=4)
    for steps in (2, 4, 6, 8):
        trainer.fit(ToyBatches(), steps, checkpoint_every=2, progress=False)
        saved.append(weights(trainer))
    return run, saved


@pytest.fixture
def run(trained, tmp_path):
    """A copy of that run."""
    shutil.copytree(trained[0] / "checkpoints", tmp_path / "checkpoints")
    return tmp_path


@pytest.mark.slow
def test_the_mean_of_the_last(trained, run, last=3):
    path = average_checkpoints(run, last)
    assert os.path.basename(path) == "average-0000000008"
    model = toy_model()
    step, history = restore_weights(run, model, average=True)
    assert step == 8 and history.state()["train"]
    wanted = [np.mean(same, axis=0) for same in zip(*trained[1][-last:], strict=True)]
    for variable, want in zip(model.trainable_variables, wanted, strict=True):
        np.testing.assert_allclose(variable.numpy(), want, atol=1e-6, err_msg=variable.path)
    restore_weights(run, model, best=False)
    assert_same([v.numpy() for v in model.trainable_variables], trained[1][-1])


@pytest.mark.slow
def test_the_run_resumes_as_if_nothing_had_been_averaged(trained, run):
    before = sorted(os.listdir(run / "checkpoints"))
    average_checkpoints(run, 2)
    average_checkpoints(run, 1)
    names = sorted(os.listdir(run / "checkpoints"))
    assert names == ["average-0000000008", *before]
    trainer = toy_trainer(directory=run, keep=4)
    assert trainer.restore() == 8
    assert_same(weights(trainer), trained[1][-1])


def test_names_with_dots_and_whole_numbers(tmp_path):
    names = ["model/a.b/kernel", "model/a.S/kernel", "optimizer/m/model/a"]
    variables = {name: tf.Variable([0.0, 0.0]) for name in names}
    variables["model/count"] = tf.Variable(0, dtype="int64")
    checkpoints = Checkpoints(tmp_path / "checkpoints", variables)
    for step in (1, 2):
        for i, name in enumerate(names):
            variables[name].assign([step * 10.0 + i, float(step)])
        variables["model/count"].assign(4 * step)
        checkpoints.save(step, {})
    average_checkpoints(tmp_path, 2)
    kept = {k: tf.Variable(v) for k, v in variables.items() if k.startswith("model/")}
    assert Checkpoints(tmp_path / "checkpoints", kept).restore_average() == {"step": 2}
    np.testing.assert_array_equal(kept["model/a.b/kernel"], [15, 1.5])
    np.testing.assert_array_equal(kept["model/a.S/kernel"], [16, 1.5])
    assert int(kept["model/count"]) == 6
    # Neither the optimizer's numbers nor the step are in it: no run can be resumed from a mean.
    with pytest.raises(ValueError, match="cannot be read"):
        more = {**variables, "step": tf.Variable(0)}
        Checkpoints(tmp_path / "checkpoints", more).restore_average()


def test_too_few_checkpoints(run):
    with pytest.raises(ValueError, match="last=0"):
        average_checkpoints(run, 0)
    with pytest.raises(ValueError, match="last=5"):
        average_checkpoints(run)
    with pytest.raises(FileNotFoundError, match="no mean of checkpoints"):
        restore_weights(run, toy_model(), average=True)


def test_a_damaged_checkpoint_is_named_and_nothing_is_written(run):
    path = run / "checkpoints" / "step-0000000006" / "variables.safetensors"
    flip_a_bit(path)
    with pytest.raises(ValueError, match="step-0000000006 cannot be read"):
        average_checkpoints(run, 3)
    assert not [x for x in os.listdir(run / "checkpoints") if "average" in x]
    assert average_checkpoints(run, 1)
