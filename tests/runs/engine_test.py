"""Which engine trains, what is said where none can, and runs of both engines."""

import json
import os
import pathlib

import numpy as np
import pytest

import tfnlp
from tests.runs.engine_run import SAMPLE, settings, write_texts
from tests.support import QUICK_JAX, run_python
from tfnlp import in_tensorflow, training
from tfnlp.families import FAMILIES
from tfnlp.runs import engine
from tfnlp.training import strategy as strategies

SCRIPT = pathlib.Path(__file__).with_name("engine_run.py")
OTHERS = [name for name in FAMILIES if name not in SAMPLE]


@pytest.fixture
def machine(monkeypatch):
    """Make a machine with a TPU, a GPU or None, and packages that see it."""

    def make(kind, packages=(), sees=()):
        monkeypatch.setattr(engine, "accelerator", lambda: kind)
        monkeypatch.setattr(engine, "_is_installed", lambda name: name in packages)
        monkeypatch.setattr(
            engine.importlib.util, "find_spec", lambda name: name in packages or None
        )
        monkeypatch.setattr(engine, "_sees_gpu", lambda name: name in sees)

    for name in ("KERAS_BACKEND", "TPU_NAME", "COLAB_TPU_ADDR"):
        monkeypatch.delenv(name, raising=False)
    return make


@pytest.mark.parametrize(
    "kind, packages, sees, chosen",
    [
        (None, ("jax", "tensorflow"), (), "tensorflow"),
        ("tpu", ("jax", "libtpu", "tensorflow"), (), "jax"),
        ("tpu", ("tensorflow-tpu", "jax", "libtpu"), (), "tensorflow"),
        ("gpu", ("tensorflow", "jax"), ("tensorflow", "jax"), "tensorflow"),
        ("gpu", ("tensorflow", "jax"), ("jax",), "jax"),
    ],
)
def test_auto_takes_what_can_use_the_device(machine, kind, packages, sees, chosen):
    machine(kind, packages, sees)
    assert engine._choice("auto", None) == chosen


@pytest.mark.parametrize("kind, said", [("tpu", "jax[tpu]"), ("gpu", "and-cuda")])
def test_auto_stops_where_nothing_can_use_the_device(machine, kind, said):
    machine(kind, ("tensorflow", "jax"))
    with pytest.raises(ValueError, match=kind.upper()) as caught:
        engine._choice("auto", None)
    assert said in str(caught.value)
    assert engine._choice("cpu", None) == "tensorflow"
    assert engine._choice("auto", "my-tpu") == "tensorflow"


def test_auto_follows_the_environment(machine, monkeypatch):
    machine("tpu", ("tensorflow-tpu",))
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert engine._choice("auto", None) == "jax"


def test_another_backend_than_that_of_keras_is_refused():
    assert engine.use_engine("auto") == engine.use_engine("tensorflow") == "tensorflow"
    with pytest.raises(ValueError, match="KERAS_BACKEND=jax"):
        engine.use_engine("jax")


@pytest.mark.parametrize("name", ["auto", "mirrored", "multi_worker"])
def test_tensorflow_does_not_train_on_the_cpu_beside_a_gpu_without_a_word(name, monkeypatch):
    monkeypatch.setattr(strategies, "accelerator", lambda: "gpu")
    with pytest.raises(ValueError, match="GPU"):
        training.make_strategy(name)
    training.make_strategy("cpu")


def test_variables_that_reach_a_tpu_by_pjrt_keep_what_was_set(monkeypatch):
    monkeypatch.setattr(os, "environ", {"TF_XLA_FLAGS": "--mine=1", "PJRT_DEVICE": "OTHER"})
    engine._set_pjrt_variables()
    flags = os.environ["TF_XLA_FLAGS"].split()
    assert flags[0] == "--mine=1" and "--tf_mlir_enable_mlir_bridge=true" in flags
    assert os.environ["PJRT_DEVICE"] == "OTHER" and os.environ["TPU_NAME"] == "local"
    assert os.environ["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"].endswith("libtpu.so")


def test_what_can_not_be_called_elsewhere_is_said():
    with pytest.raises(ValueError, match="save it first"):
        in_tensorflow.in_tensorflow(None, [], "export", "folder")
    with pytest.raises(ValueError, match="an argument can't be sent"):
        in_tensorflow.in_tensorflow("folder", [], "predict", lambda: None)


@pytest.fixture(scope="module")
def runs_of(tmp_path_factory):
    """A function that trains families with JAX, and fine-tunes a BERT."""
    folders = {}

    def runs(*families):
        if families not in folders:
            folder = folders[families] = tmp_path_factory.mktemp("jax")
            write_texts(folder)
            run_python(SCRIPT, folder, *families, env={"KERAS_BACKEND": "", **QUICK_JAX})
        return folders[families]

    return runs


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "family",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in SAMPLE),
        *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS),
    ],
)
def test_a_run_of_jax_has_the_same_measures_in_tensorflow(family, runs_of):
    folder = runs_of(*(SAMPLE if family in SAMPLE else OTHERS))
    there = json.loads((folder / "results.json").read_text())[family]
    here = tfnlp.pretrain(family, **settings(family, folder)).results  # it has ended
    assert set(here) == set(there)
    for name, value in there.items():
        if isinstance(value, float):
            assert here[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name
    if family == "elmo":  # which is fine-tuned on frozen features
        found = tfnlp.load(folder / "elmo_features").evaluate(str(folder / "dev.tsv"))
        features = json.loads((folder / "results.json").read_text())["elmo_features"]
        assert features == pytest.approx(found, rel=1e-5)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_vectors_predictions_and_modules_of_jax_are_those_of_tensorflow(runs_of):
    import tensorflow as tf

    runs = runs_of(*SAMPLE)
    there = json.loads((runs / "results.json").read_text())["use"]
    loaded = tfnlp.load(runs / "bert")
    pooled = loaded(["the garden"])["pooled_output"].numpy()
    np.testing.assert_allclose(there["pooled"], pooled, atol=1e-6)
    again = loaded.predict(["the [MASK] garden"])
    assert [t for t, _ in there["filled"][0][0]] == [t for t, _ in again[0][0]]
    assert there["refused"].endswith("if it is a SavedModel")

    task = tfnlp.load(runs / "task")
    predicted = task.predict(["good book"])[0]["probabilities"]
    assert there["predicted"][0]["probabilities"] == pytest.approx(predicted, abs=1e-6)
    module = tf.saved_model.load(str(runs / "module"))
    served = module({"text": tf.constant(["good book"])})["probabilities"].numpy()[0]
    np.testing.assert_allclose(served, list(predicted.values()), atol=1e-6)
