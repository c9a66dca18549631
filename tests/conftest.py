"""What every test starts from: the TensorFlow backend, two CPU devices, fixed seeds, float32."""

import gc
import os
import tempfile

# Read once, when Keras and TensorFlow are first imported; processes that tests start inherit them.
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Toy models are too small for several threads, and several test processes run side by side.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

# Programs that JAX has compiled, for the processes of this session: a run that is killed, resumed
# and compared compiles the same ones again.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    cache = tempfile.TemporaryDirectory(prefix="tfnlp-jax-")  # deleted when the session ends
    os.environ["JAX_COMPILATION_CACHE_DIR"] = cache.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"

import keras  # noqa: E402
import pytest  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.python.framework import ops  # noqa: E402

# Two logical devices on one CPU: `training.make_strategy("mirrored")` then has two replicas. It can
# only be done before TensorFlow initialises its devices.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

# Helpers whose `assert` statements explain their failures as those of test modules do.
pytest.register_assert_rewrite("tests.cli.command", "tests.cli.toy_tasks")


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A function of a family's name: its toy, made once for this run of pytest (tests/made.py)."""
    from tests.made import Made

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # which the workers share
    return lambda family: Made(folder / "made", family)


@pytest.fixture(autouse=True)
def clean_state():
    """The same random numbers for each test, and no dtype policy left over from another."""
    keras.utils.set_random_seed(1234)
    keras.config.set_dtype_policy("float32")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture(autouse=True, scope="module")
def freed_graphs():
    """Free the graphs of a module's tests.

    TensorFlow keeps the gradient function of each `tf.custom_gradient` in a graph, and so the
    graph, until the process ends: 100 MB and more a module.
    """
    registered = ops.gradient_registry._registry
    before = set(registered)
    yield
    made = [name for name in set(registered) - before if name.startswith("CustomGradient")]
    for name in made:
        del registered[name]
    if made:
        gc.collect()
