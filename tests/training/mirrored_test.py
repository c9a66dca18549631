"""Two strategies in one process, of which TensorFlow mixes up the collective operations."""

import pytest

from tests.support import run_python

pytestmark = pytest.mark.slow  # processes of their own: what went wrong there stays wrong

START = """
import keras, numpy as np, tensorflow as tf
from tfnlp import training

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

def fit(strategy, width, with_trainer=True):
    data = tf.data.Dataset.from_tensors((np.ones((4, 3), "float32"), np.ones((4, 1), "float32")))
    with strategy.scope():
        inputs = keras.Input((3,))
        model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(width)(inputs)))
        if not with_trainer:
            model.compile("sgd", "mse")
            return model.fit(data, verbose=0)
        optimizer = keras.optimizers.SGD(0.1)
    trainer = training.Trainer(model, optimizer, loss="mse", strategy=strategy)
    # TensorFlow need not notice at the first step.
    return trainer.fit(data.repeat(), 100, progress=False)

def said(*arguments):
    try:
        fit(*arguments)
    except ValueError as error:
        print(error)
    else:
        print("trained")

own = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
other = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
"""


def lines(script):
    return run_python(START + script).stdout.strip().split("\n")


def test_a_second_strategy_is_refused_and_the_first_one_goes_on():
    seen = lines("""
said(own, 5)
said(other, 7)
said(own, 9)
print(training.make_strategy("mirrored") is own)
""")
    assert seen[0] == seen[2] == "trained" and seen[3] == "True"
    assert "already trained with another MirroredStrategy" in seen[1]
    assert "training.make_strategy('mirrored') returns the same" in seen[1]


def test_a_strategy_that_the_trainer_has_not_seen_is_named_in_place_of_tensorflow_s_error():
    (seen,) = lines("""
fit(own, 5, False)
said(other, 7)
""")
    assert "mixed up the collective operations of two MirroredStrategies" in seen
