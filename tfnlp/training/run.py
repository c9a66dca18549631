"""The folder of a pretraining run: its files, and how a model is restored from them.

    RUN/config.json    arguments of the model, casing of the vocabulary, training settings, and
                       "files": the checksums of the files that decide what the model returns
    RUN/vocab.txt      the vocabulary; a GPT's is the folder RUN/vocab
    RUN/checkpoints/   see `tfnlp.training.checkpoints`
    RUN/logs/          for TensorBoard

RUN is any path that `tf.io.gfile` takes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from typing import Any

import keras

from tfnlp.checksums import check_files, checksums
from tfnlp.files import exists, joined, make_folder, opened, reached, remove, write_text
from tfnlp.training.checkpoints import Checkpoints, differences, model_variables
from tfnlp.training.history import History

CONFIG = "config.json"

Path = str | os.PathLike[str]


def is_run(directory: Path) -> bool:
    """Return whether `directory` was written by a tfnlp run."""
    try:
        read_config(directory)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    return True


def delete_run(directory: Path) -> None:
    """Delete the files that a run wrote in `directory`; no others.

    `config.json` comes last: a deletion that was cut short leaves a run, which is deleted by the
    next one.
    """
    if is_run(directory):
        for name in ("checkpoints", "logs", "vocab"):
            remove(joined(directory, name))
        for name in ("vocab.txt", "marks.txt", "counts.txt", "page.html", CONFIG):
            remove(joined(directory, name))


def write_config(directory: Path, config: dict[str, Any], way_on: str = "") -> None:
    """Write `config`, which JSON can hold and which has a key "tfnlp", whole or not at all.

    Args:
        directory: the run's folder.
        config: everything that decides which numbers the run ends with.
        way_on: what else can be done with a run of other settings, for the message.

    Raises:
        ValueError: if a run with other settings is there; resumed with these it would not end
            with the weights of an uninterrupted run.
        OSError: if it can't be written.
    """
    path = joined(directory, CONFIG)
    if exists(path):
        before, now = read_config(directory), json.loads(json.dumps(config))
        before.pop("files", None)
        changed = differences(before, now, exactly=True)
        if changed:
            raise ValueError(
                f"{directory} holds a run with other settings ({'; '.join(changed)}); give the "
                "same settings to resume it, `restart` to delete it, or another `output` to start "
                f"a new one{way_on}"
            )
        return
    if exists(joined(directory, "checkpoints")):
        raise ValueError(
            f"{directory} holds checkpoints but no {CONFIG} that describes them; delete it or give "
            "another `output`"
        )
    make_folder(os.fspath(directory))
    write_text(path, json.dumps(config, indent=2) + "\n")


def record_files(directory: Path, names: Iterable[str], replace: bool = False) -> None:
    """Add the checksums of files to a run's config, which names them from then on.

    Args:
        names: of files and folders in it that decide what the model returns; of those that are
            missing nothing is recorded. Not of files that change while the run goes on.
        replace: whether files that are recorded have changed on purpose.
    """
    config = read_config(directory)
    known, found = config.get("files") or {}, checksums(str(directory), names)
    files = {**known, **found} if replace else {**found, **known}
    if files != known:
        write_text(
            joined(directory, CONFIG), json.dumps({**config, "files": files}, indent=2) + "\n"
        )


def check_run(directory: Path, ignore: Collection[str] = ()) -> None:
    """Check that the files of a run are those that it was made with; of no run nothing.

    Those in `ignore` are not checked.

    Raises:
        FileNotFoundError: if one is missing.
        ValueError: if one was changed.
    """
    path = joined(directory, CONFIG)
    if not exists(path):
        return
    files = read_config(directory).get("files")
    if isinstance(files, dict):
        files = {name: checksum for name, checksum in files.items() if name not in ignore}
    check_files(str(directory), files, path, "restore the file, or start a new run")


def read_config(directory: Path) -> dict[str, Any]:
    """Return the configuration of the run in `directory`.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it can't be read.
    """
    path = joined(directory, CONFIG)
    with reached(directory):
        there = exists(path)
    if not there:
        raise FileNotFoundError(f"{path} is missing; is {directory} the `output` of a run?")
    try:
        with reached(path), opened(path) as file:
            config = json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not valid JSON ({error}); restore it or start a new run"
        ) from error
    if not isinstance(config, dict) or "tfnlp" not in config:
        raise ValueError(f"{path} was not written by tfnlp: it has no key 'tfnlp'")
    return config


def restore_weights(
    directory: Path, model: keras.Model, best: bool = True, average: bool = False
) -> tuple[int, History]:
    """Load a checkpoint of a run into `model`.

    Args:
        directory: the run's folder.
        model: a Keras model with the run's arguments.
        best: load the best checkpoint, if one is marked, else the latest.
        average: load the mean that `average_checkpoints` wrote.

    Returns:
        `(step, History)`: the step of the checkpoint, and the history of the whole run.

    Raises:
        FileNotFoundError: if the run has no checkpoint yet, or no mean.
        ValueError: if none can be read.
    """
    folder = joined(directory, "checkpoints")
    checkpoints = Checkpoints(folder, model_variables(model))
    if average:
        state = checkpoints.restore_average()
    else:
        state = checkpoints.restore_best() if best else checkpoints.restore_latest()
    if state is None:
        raise FileNotFoundError(f"{folder} holds no checkpoint; train before you use the run")
    return state["step"], History(**{**state, **checkpoints.newest_state()}["history"])
