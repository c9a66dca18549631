"""The mean of a run's last checkpoints, against numpy."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.training.toy import ToyBatches, assert_same, toy_model, toy_trainer, weights
from tfnlp.training import Checkpoints, average_checkpoints
from tfnlp.training.run import restore_weights


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
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="step-0000000006 cannot be read"):
        average_checkpoints(run, 3)
    assert not [x for x in os.listdir(run / "checkpoints") if "average" in x]
    assert average_checkpoints(run, 1)
