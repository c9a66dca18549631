"""What every test starts from: the TensorFlow backend, two CPU devices, fixed seeds, float32."""

import functools
import gc
from unittest import mock

import pytest

import tests

# What test modules import asserts as they do.
pytest.register_assert_rewrite("tests.cli.every_task", "tests.cli.toy_tasks")

# Graphs are many small objects: Python's garbage collection, as often as it usually comes, is a
# twentieth of all the time.
gc.set_threshold(50_000, 20, 100)

# Files of one long test, or that wait for processes of their own: begun last, they would leave the
# other test processes without work at the end.
LONG = ("colab/", "demos/", "scale_test", "workers_test", "kill_test", "finetune", "trainer_test")


def pytest_collectstart():
    _start()


@functools.cache
def _start():
    tests.load()
    import tensorflow as tf

    # Two logical devices on one CPU: `tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])` then has
    # real replicas. It can only be done before TensorFlow initialises its devices.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not any(part in item.nodeid.split("::")[0] for part in LONG))


@pytest.fixture(autouse=True, scope="module")
def tensorflow_seed():
    """TensorFlow's own random numbers begin anew with each file, not with each test: setting that
    seed makes it forget all kernels, and making them again would be a fifth of a small test."""
    import tensorflow as tf

    tf.random.set_seed(1234)


@pytest.fixture(autouse=True)
def clean_state():
    """The same random numbers for each test, and no dtype policy left over from another."""
    import keras
    import tensorflow as tf

    with mock.patch.object(tf.random, "set_seed"):
        keras.utils.set_random_seed(1234)
    keras.config.set_dtype_policy("float32")
    # TensorFlow numbers the collectives of every new strategy from the same key and remembers
    # their shapes, so a process's second strategy would trip over its first one's.
    tf.distribute.MirroredStrategy._collective_key_base += 1000
    yield
    keras.config.set_dtype_policy("float32")
