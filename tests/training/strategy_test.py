"""The devices that a strategy's name selects, and the errors where there are none or two."""

import json
import socket
import threading

import pytest
import tensorflow as tf

from tests.support import run_python
from tfnlp import training
from tfnlp.training import strategy as strategies


@pytest.mark.parametrize(
    "name, arguments, said",
    [
        ("pod", {}, "strategy='pod'"),
        ("cpu", {"tpu": "local"}, "`tpu` local"),
        ("mirrored", {"workers": ["a:1"]}, "`workers`"),
        ("multi_worker", {"wait": 0.0}, "`wait` 0.0"),
        ("multi_worker", {"workers": ["a:1"]}, "--index"),
        ("multi_worker", {"workers": ["a:1"], "index": 1}, "--index 1"),
        ("multi_worker", {"workers": ["a:1", "a:1"], "index": 0}, "workers"),
        ("multi_worker", {}, "--workers"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name, arguments, said, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ValueError, match=said):
        training.make_strategy(name, **arguments)


def test_cluster_of_the_environment(monkeypatch):
    def read(cluster, kind, index):
        config = {"cluster": cluster, "task": {"type": kind, "index": index}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        return training.read_cluster()

    assert read({"worker": ["a:1", "b:1"]}, "worker", 1) == (["a:1", "b:1"], 1)
    both = {"chief": ["c:1"], "worker": ["a:1", "b:1"]}
    assert read(both, "chief", 0) == (["c:1", "a:1", "b:1"], 0)
    assert read(both, "worker", 1) == (["c:1", "a:1", "b:1"], 2)
    with pytest.raises(ValueError, match="TF_CONFIG"):
        read({"worker": ["a:1"], "ps": ["p:1"]}, "worker", 0)
    with pytest.raises(ValueError, match="TF_CONFIG"):
        read({"worker": ["a:1"]}, "evaluator", 0)


@pytest.mark.parametrize("text", ["{", "[]", '{"cluster": 1, "task": 2}'])
def test_damaged_cluster_of_the_environment(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="TF_CONFIG"):
        training.read_cluster()


def test_several_workers_come_before_all_else(tmp_path):
    # TensorFlow has already run in this process.
    with socket.create_server(("", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    tf.constant(0)
    with pytest.raises(ValueError, match="before anything else runs"):
        training.make_strategy("multi_worker", workers=[place], index=0, wait=5.0)


def test_no_tpu_here(monkeypatch):
    for name in ("TPU_NAME", "COLAB_TPU_ADDR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="no TPU"):
        training.make_strategy("tpu")
    auto, mirrored = (training.make_strategy(name) for name in ("auto", "mirrored"))
    assert not isinstance(auto, tf.distribute.TPUStrategy)
    assert mirrored.num_replicas_in_sync >= 2  # all logical CPUs
    assert training.device_kind(auto) == training.device_kind(mirrored) == "cpu"


def test_tpu_that_does_not_answer_at_its_address():
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ValueError, match=f"no TPU answers at {place}"):
        training.make_strategy("tpu", tpu=f"grpc://{place}")


def test_tpu_that_never_gets_ready_does_not_hang(monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(strategies, "_connect", lambda name: never.wait())
    with pytest.raises(TimeoutError, match="'slow'"):
        strategies.tpu_strategy("slow", 0.1)
    never.set()


def test_tensorflow_without_tpus_says_what_to_install():
    with pytest.raises(ValueError, match="pip install"):
        strategies.tpu_strategy("local", 60.0)


def test_auto_takes_the_tpu_that_is_there(monkeypatch):
    seen = []
    monkeypatch.setattr(strategies, "tpu_strategy", lambda *arguments: seen.append(arguments))
    monkeypatch.setenv("TPU_NAME", "local")
    training.make_strategy("auto")
    training.make_strategy("tpu", tpu="other", wait=5.0)
    assert seen == [(None, 300.0), ("other", 5.0)]
    monkeypatch.delenv("TPU_NAME")
    monkeypatch.setenv("COLAB_TPU_ADDR", "10.0.0.2:8470")
    assert strategies.tpu_here() == "grpc://10.0.0.2:8470"


TWO_STRATEGIES = """
import keras, numpy as np, tensorflow as tf
from tfnlp import training

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

def fit(strategy, width):
    data = tf.data.Dataset.from_tensors((np.ones((4, 3), "float32"), np.ones((4, 1), "float32")))
    with strategy.scope():
        inputs = keras.Input((3,))
        model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(width)(inputs)))
        optimizer = keras.optimizers.SGD(0.1)
    trainer = training.Trainer(model, optimizer, loss="mse", strategy=strategy)
    return trainer.fit(data.repeat(), 3, progress=False)

def said(strategy, width):
    try:
        fit(strategy, width)
    except ValueError as error:
        print(error)
    else:
        print("trained")

own = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
other = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
said(own, 5)
said(other, 7)
said(own, 9)
print(training.make_strategy("mirrored") is own)
"""


@pytest.mark.slow  # a process of its own: what went wrong there stays wrong
def test_a_second_strategy_is_refused_and_the_first_one_goes_on():
    seen = run_python(TWO_STRATEGIES).stdout.strip().split("\n")
    assert seen[0] == seen[2] == "trained" and seen[3] == "True"
    assert "already trained with another MirroredStrategy" in seen[1]
    assert "training.make_strategy('mirrored') returns the same" in seen[1]
