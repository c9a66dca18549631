"""What one of several workers sees under JAX: `python -m tests.training.jax_workers_run OUTPUT`.

Its cluster is that of TF_CONFIG. Writes OUTPUT/found.json.
"""

import contextlib
import json
import os
import pathlib
import stat
import sys

import keras
import numpy as np
import tensorflow as tf

from tfnlp import training


def main():
    output = pathlib.Path(sys.argv[1])
    strategy = training.make_strategy("multi_worker", wait=120, shard_optimizer=True)
    workers = training.workers_of(strategy)
    gathered = workers.gather(-(2**62) - 1 + workers.index, workers.index, 5)
    keras.utils.set_random_seed(workers.index)
    layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    drawn = total(model)
    trainer = training.Trainer(model, "adamw", 0.1, loss="mean_squared_error", strategy=strategy)
    before = total(model)
    x = np.random.default_rng(2).normal(size=(64, 3)).astype("float32")
    y = np.sin(x.sum(-1, keepdims=True))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8, drop_remainder=True)
    read = []

    def validation():
        read.append(float(np.mean((model.predict(x, verbose=0) - y) ** 2)))
        return {"loss": read[-1]}

    trainer.fit(data, 4, validation=validation, evaluate_every=2, progress=False)
    found = {
        "gathered": gathered.tolist(),
        "inherited": inherited_sockets(),
        "drawn": drawn,
        "before": before,
        "after": total(model),
        "read": read[-1],
        "measured": trainer.evaluate(data)["loss"],
    }
    (output / "found.json").write_text(json.dumps(found))


def inherited_sockets():
    """Sockets that a program would have which this process becomes."""
    found = []
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode) and os.get_inheritable(int(name)):
                found.append(int(name))
    return found


def total(model):
    return float(sum(np.abs(v.numpy()).sum() for v in model.trainable_variables))


if __name__ == "__main__":
    main()
