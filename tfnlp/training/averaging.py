"""The mean of the weights of a run's last checkpoints."""

from __future__ import annotations

import os
import re

import numpy as np
import tensorflow as tf

from tfnlp.training.checkpoints import Checkpoints, read_state

_KEY = re.compile(r"^variables/(model\.S.+)/\.ATTRIBUTES/VARIABLE_VALUE$")


def average_checkpoints(run: str | os.PathLike[str], last: int = 5) -> str:
    """Write the mean of the weights of the last checkpoints (Vaswani et al. 2017, section 6.1).

    The mean is a checkpoint of its own kind beside the others, without the optimizer;
    `restore_weights(run, model, average=True)` reads it. It replaces an earlier one. The run does
    not change: it resumes from its last step, and its best checkpoint stays the best.

    Args:
        run: a run's folder; it must have kept enough checkpoints.
        last: K, how many to average.

    Returns:
        The path of the new checkpoint.

    Raises:
        ValueError: for `last` < 1, fewer checkpoints than that, or one that can't be read.
        OSError: if the mean can't be written.
    """
    if last < 1:
        raise ValueError(f"last={last} must be at least 1")
    folder = tf.io.gfile.join(str(run), "checkpoints")
    paths = [path for _, path in Checkpoints(folder, {}).paths()]
    if len(paths) < last:
        raise ValueError(
            f"{folder} holds {len(paths)} checkpoints, fewer than last={last}; average fewer, or "
            f"let the run keep {last} or more"
        )
    sums, dtypes = {}, {}
    for path in paths[-last:]:
        state, weights = read_state(path), _weights(path)
        if sums and {k: v.shape for k, v in sums.items()} != {
            k: v.shape for k, v in weights.items()
        }:
            raise ValueError(f"checkpoint {path} has other weights than the one before it")
        dtypes = {name: value.dtype for name, value in weights.items()}
        sums = {name: sums.get(name, 0.0) + v.astype("float64") for name, v in weights.items()}
    variables = {
        name: tf.Variable((total / last).astype(dtypes[name])) for name, total in sums.items()
    }
    step = state.pop("step")
    return Checkpoints(folder, variables).save(step, state, kind="average")


def _weights(path: str) -> dict[str, np.ndarray]:
    """Return the model's weights in a checkpoint by name."""
    try:
        reader = tf.train.load_checkpoint(tf.io.gfile.join(path, "variables"))
        weights = {}
        for key in reader.get_variable_to_shape_map():
            if match := _KEY.match(key):
                # TensorFlow writes "/" in a name as ".S" and "." as "..".
                name = re.sub(r"\.([S.])", lambda m: "/" if m[1] == "S" else ".", match[1])
                weights[name] = reader.get_tensor(key)
    except Exception as error:  # damage raises OpError, IndexError, RuntimeError, ...
        first_line = str(error).strip().split("\n")[0]
        raise ValueError(f"checkpoint {path} cannot be read: {first_line}") from error
    return weights
