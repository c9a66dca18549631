"""`tfnlp export` of an ELMo: a run or bilm-tf's files to a module, or to bilm-tf's files."""

import os

import h5py
import numpy as np
import pytest
import tensorflow as tf

from tests.cli.command import checkpoint, error, tfnlp
from tests.support import ROOT, golden, run_python
from tfnlp.convert import load_elmo
from tfnlp.text import character_ids

pytestmark = pytest.mark.slow

BILM = "elmo_bilm_tf"
SENTENCE = "the cat sat on a mat ."


def failed(capsys, *arguments):
    """Return the error of `tfnlp ARGUMENTS`."""
    capsys.readouterr()
    assert tfnlp(*arguments) == 1
    return error(capsys)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished toy run."""
    folder = tmp_path_factory.mktemp("elmo")
    words = SENTENCE.split()
    rng = np.random.default_rng(0)
    text = "\n".join(" ".join(rng.permutation(words)) for _ in range(300))
    (folder / "text.txt").write_text(text)
    command = ["pretrain", "elmo", "--input", folder / "text.txt", "--output", folder / "run"]
    command += ["--layout", "lines", "--size", "mini", "--units", "8", "--projection-size", "4"]
    command += ["--batch-size", "4", "--window", "5", "--steps", "2", "--samples", "0"]
    assert tfnlp(*command) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def bilm(run):
    """The run as bilm-tf's files."""
    assert tfnlp("export", "--model", run, "--output", run / "bilm", "--format", "bilm") == 0
    return run / "bilm"


def vectors(folder):
    """Return the outputs for SENTENCE of the ELMo in a folder of bilm-tf's files."""
    return load_elmo(folder).encoder({"character_ids": character_ids([SENTENCE.split()])})


def test_run_to_module_that_trains_everything(run, bilm, tmp_path, capsys):
    path = tmp_path / "m"
    command = ["export", "--model", run, "--output", path]
    assert tfnlp(*command, "--trainable", "all", "--l2", "0.5") == 0
    assert f"module: {path}" in capsys.readouterr().out
    module = tf.saved_model.load(str(path))
    want = vectors(bilm)
    for name, got in module(tf.constant([SENTENCE])).items():
        np.testing.assert_allclose(got, want[name], atol=2e-6)
    assert len(module.trainable_variables) == len(load_elmo(bilm).encoder.trainable_variables)
    (loss,) = module.regularization_losses
    (scalars,) = [v for v in module.trainable_variables if v.shape == (3,)]
    scalars.assign([1.0, 2.0, 0.0])
    np.testing.assert_allclose(loss(), 0.5 * 5.0)
    assert "m exists" in failed(capsys, *command)
    assert tfnlp(*command, "--overwrite") == 0
    assert len(tf.saved_model.load(str(path)).trainable_variables) == 2


def test_bilm_checkpoint_to_module_with_the_cache_of_a_run(run, tmp_path):
    command = ["export", "--model", golden(BILM), "--output", tmp_path / "m"]
    assert tfnlp(*command, "--cache", run / "vocab.txt") == 0
    module = tf.saved_model.load(str(tmp_path / "m"))
    assert len(module.trainable_variables) == 2 and not module.regularization_losses
    words = (tmp_path / "m" / "assets" / "words.txt").read_text()
    assert words == (run / "vocab.txt").read_text()
    want = vectors(golden(BILM))
    for name, got in module.signatures["default"](text=tf.constant([SENTENCE])).items():
        np.testing.assert_allclose(got, want[name], atol=2e-6)


def test_run_to_bilm_format(run, bilm, capsys):
    assert sorted(os.listdir(bilm)) == ["README.md", "options.json", "weights.hdf5"]
    with h5py.File(bilm / "weights.hdf5") as file:  # the words' softmax goes along
        kernel = checkpoint(run, "best")["model/softmax/kernel"]
        np.testing.assert_array_equal(file["softmax/W"], kernel)
    command = ["export", "--model", run, "--output", bilm, "--format", "bilm"]
    assert "holds ['README.md', 'options.json', 'weights.hdf5']" in failed(capsys, *command)
    assert tfnlp(*command, "--overwrite") == 0
    assert f"checkpoint: {bilm}" in capsys.readouterr().out


def test_export_script_does_the_same(tmp_path):
    (tmp_path / "words.txt").write_text("the\ncat\n")
    flags = ["--model", golden(BILM), "--output", tmp_path / "m"]
    flags += ["--cache", tmp_path / "words.txt", "--l2", "0.25"]
    run_python(ROOT / "export" / "elmo.py", *flags)
    module = tf.saved_model.load(str(tmp_path / "m"))
    assert len(module.regularization_losses) == 1 and len(module.trainable_variables) == 2
    want = vectors(golden(BILM))["default"]
    np.testing.assert_allclose(module(tf.constant([SENTENCE]))["default"], want, atol=2e-6)
