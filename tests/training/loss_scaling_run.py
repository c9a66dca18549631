"""A toy that overflows float16, for Keras's backend."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tfnlp import training

BATCH, STEPS = 8, 16
SCALING = training.LossScaling(initial=2.0**15, interval=3)
# Targets of these steps are so far off that the scaled gradient is above 65504.
FAR = {3: 64.0, 4: 64.0, 9: 300.0}


def batch(step):
    """Inputs and targets with few bits: sums of them are exact."""
    rng = np.random.default_rng([5, step])
    x = rng.integers(-2, 3, (BATCH, 2)).astype("float32")
    y = rng.integers(-4, 5, BATCH).astype("float32") / 4 + FAR.get(step, 0.0)
    return {"x": x, "targets": y}


class Batches:
    """The batches as a function of the step."""

    batch_size = BATCH

    def dataset(self, first_step=0):
        parts = [batch(step) for step in range(first_step, STEPS)]
        return tf.data.Dataset.from_tensor_slices({k: [p[k] for p in parts] for k in parts[0]})


class Half(keras.layers.Layer):
    """`x w` in float32, through float16: its gradient is rounded to float16, too.

    With `counts` it counts its calls while training, as a running average would.
    """

    def __init__(self, counts, **kwargs):
        super().__init__(**kwargs)
        self.counts = counts

    def build(self, shape):
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1],), initializer="zeros")
        if self.counts:
            self.calls = self.add_weight(name="calls", initializer="zeros", trainable=False)

    def call(self, inputs, training=False):
        if training and self.counts:
            self.calls.assign(self.calls + 1.0)
        y = ops.sum(inputs * self.kernel, -1)
        return ops.cast(ops.cast(y, "float16"), "float32")


def half_squares(targets, outputs):
    return 0.5 * ops.square(outputs - targets)


def optimizer_of(name):
    if name == "sgd":
        return keras.optimizers.SGD(0.125, momentum=0.5)
    return training.AdamW(weight_decay=0.0)


class Rows(keras.callbacks.Callback):
    """What each step logged, and what it left behind."""

    def __init__(self, trainer):
        super().__init__()
        self.trainer, self.rows = trainer, []

    def on_train_batch_end(self, batch, logs=None):
        variables = {k: v.numpy().tolist() for k, v in self.trainer.engine.variables().items()}
        self.rows.append({"step": batch, **logs, "variables": variables})


def make_trainer(strategy=None, optimizer="sgd", **arguments):
    """A trainer of the toy."""
    strategy = strategy or training.default_strategy()
    with strategy.scope():
        x = keras.Input((2,), name="x")
        counts = strategy.num_replicas_in_sync == 1
        model = keras.Model({"x": x}, Half(counts, name="half")(x), name="toy")
        made = optimizer_of(optimizer)
    return training.Trainer(
        model,
        made,
        None if optimizer == "sgd" else 0.125,
        loss=half_squares,
        strategy=strategy,
        clip_norm=None,
        loss_scaling=SCALING,
        **arguments,
    )


def train(steps=STEPS, steps_per_call=1, **arguments):
    """Return the rows of all calls, and the history."""
    trainer = make_trainer(steps_per_call=steps_per_call, **arguments)
    rows = Rows(trainer)
    history = trainer.fit(
        Batches(),
        steps,
        log_every=4,
        checkpoint_every=steps_per_call,
        evaluate_every=STEPS,
        callbacks=[rows],
        progress=False,
    )
    return {"rows": rows.rows, "history": history.train}
