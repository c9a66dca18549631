"""Exported modules in a process where tfnlp can't be imported.

`alone(folder, look)` runs a function of a test there: it may use this file's other functions, numpy
and TensorFlow, and what it imports itself.
"""

import inspect
import os
import pathlib
import sys  # noqa: F401  of what `alone` runs

import numpy as np
import tensorflow as tf

KERAS = ("keras", "tensorflow_text", "tensorflow_hub", "tf_keras")


def listed(prefix, outputs):
    """Outputs as arrays by name; those in lists have a number."""
    found = {}
    for name, value in outputs.items():
        several = isinstance(value, list | tuple)
        for i, x in enumerate(value if several else [value]):
            found[f"{prefix}/{name}/{i}" if several else f"{prefix}/{name}"] = x.numpy()
    return found


def trained(prefix, module, inputs, loss):
    """Numbers of variables, penalties, what dropout does, and gradients of `loss(outputs)`."""
    first, second = (loss(module(inputs, training=True)) for _ in range(2))
    found = {
        f"{prefix}/counts": np.array([len(module.variables), len(module.trainable_variables)]),
        f"{prefix}/penalties": np.array([float(x()) for x in module.regularization_losses]),
        f"{prefix}/dropout": np.abs(first - second),
    }
    for training in (True, False):
        with tf.GradientTape() as tape:
            value = loss(module(inputs, training=training))
        for i, x in enumerate(tape.gradient(value, module.trainable_variables)):
            # An absent one would end the script.
            found[f"{prefix}/gradient/{training}/{i}"] = tf.convert_to_tensor(x).numpy()
    return found


def again(folder, name):
    """A module that was loaded and saved again, loaded where the first is gone."""
    first, copy = f"{folder}/{name}", f"{folder}/again/{name}"
    module = tf.saved_model.load(first)
    tf.saved_model.save(module, copy, signatures=dict(module.signatures))
    os.rename(first, f"{folder}/moved")  # the copy must carry its own vocabulary
    found = tf.saved_model.load(copy)
    os.rename(f"{folder}/moved", first)
    return found


def alone(folder, look, blocked=(), env=None):
    """The arrays by name that `look(folder)` returns where `blocked` can't be imported, either."""
    from tests.support import run_python

    before = f"""import os, sys
os.environ["TF_USE_LEGACY_KERAS"] = "1"  # tensorflow_text imports a Keras
sys.modules.update(dict.fromkeys({["tfnlp", *blocked]!r}))
"""
    after = f"\nnp.savez('seen.npz', **{look.__name__}(sys.argv[1]))\n"
    source = pathlib.Path(__file__).read_text(encoding="utf-8") + inspect.getsource(look)
    run_python(before + source + after, folder, folder=folder, env=env, without_tfnlp=True)
    return dict(np.load(pathlib.Path(folder, "seen.npz"), allow_pickle=True))
