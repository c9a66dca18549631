"""A run's folder: what a pretraining run leaves behind, and how a model is made from it again.

    RUN/config.json    the model's arguments, the vocabulary's casing, the training settings
    RUN/vocab.txt      the vocabulary; a GPT's is the folder RUN/vocab
    RUN/checkpoints/   see `tfnlp.training.checkpoints`
    RUN/logs/          for TensorBoard
"""

import json
import os
import shutil

import tensorflow as tf

from tfnlp.training.checkpoints import Checkpoints, model_variables
from tfnlp.training.history import History

CONFIG = "config.json"


def is_run(directory):
    """Whether `directory` was written by a tfnlp run."""
    try:
        read_config(directory)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    return True


def delete_run(directory):
    """Deletes what a run wrote in `directory`; anything else stays."""
    if is_run(directory):
        for name in (CONFIG, "vocab.txt", "curve.png"):
            if os.path.exists(os.path.join(directory, name)):
                os.remove(os.path.join(directory, name))
        for name in ("checkpoints", "logs", "vocab"):
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)


def write_config(directory, config):
    """Writes `config` (JSON-able, with a key "tfnlp") whole or not at all.

    Raises:
        ValueError: if another run with other settings is there; resuming it with these would
            not end where the uninterrupted run ends.
    """
    path = os.path.join(directory, CONFIG)
    if os.path.exists(path):
        changed = _differences(read_config(directory), json.loads(json.dumps(config)))
        if changed:
            raise ValueError(
                f"{directory} holds a run with other settings ({'; '.join(changed)}); give the "
                "same settings to resume it, or another --output (or --restart) to start a new one"
            )
        return
    if os.path.isdir(os.path.join(directory, "checkpoints")):
        raise ValueError(
            f"{directory} holds checkpoints but no {CONFIG} that says of what; delete it or give "
            "another --output"
        )
    os.makedirs(directory, exist_ok=True)
    partial = f"{path}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    os.replace(partial, path)


def read_config(directory):
    """The configuration of the run in `directory`.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it can't be read.
    """
    path = os.path.join(directory, CONFIG)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is missing; is {directory} the --output of a run?")
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}); restore it or start anew") from error
    if not isinstance(config, dict) or "tfnlp" not in config:
        raise ValueError(f"{path} was not written by tfnlp: it has no key 'tfnlp'")
    return config


def restore_weights(directory, model, best=True):
    """Loads the best (or the latest) checkpoint of a run into `model`.

    Returns:
        `(step, History)`.

    Raises:
        FileNotFoundError: if the run has no checkpoint yet.
        ValueError: if none can be read.
    """
    folder = tf.io.gfile.join(str(directory), "checkpoints")
    checkpoints = Checkpoints(folder, model_variables(model))
    state = checkpoints.restore_best() if best else checkpoints.restore_latest()
    if state is None:
        raise FileNotFoundError(f"{folder} holds no checkpoint; train before you use the run")
    return state["step"], History(**state["history"])


def _differences(old, new, prefix=""):
    found = []
    for key in sorted(set(old) | set(new)):
        a, b = old.get(key), new.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += _differences(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key} was {a}, now {b}")
    return found
