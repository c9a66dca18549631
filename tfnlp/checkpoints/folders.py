"""Folders of checkpoints: which files are read, and how a new folder is written."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from tfnlp.cards import CARD, folder_card
from tfnlp.checkpoints.formats.json_files import write_json
from tfnlp.files import WriteError, write_error, write_text, written_whole

MODEL_FILES = ("config.json", "model.safetensors")  # that are written
WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "*.index",
    "*.npz",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
# The first line of the text that TensorFlow writes beside its checkpoints.
_LATEST = re.compile(rb'\s*model_checkpoint_path: "([^"\\]*)"')


def find_weights(path: str | os.PathLike) -> pathlib.Path:
    """Return the weight file that `path` means.

    That is the file or TensorFlow prefix itself or, of a folder, the first of `model.safetensors`
    (or its shards), a TensorFlow checkpoint, an `.npz`, `pytorch_model.bin` (or its shards).
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        prefix_index = path.with_name(path.name + ".index")
        if not path.exists() and not prefix_index.exists():
            raise FileNotFoundError(f"there is no folder, file or TensorFlow checkpoint {path}")
        return path
    found = weight_names(file.name for file in path.iterdir() if file.is_file())
    if not found:
        raise FileNotFoundError(f"{path} holds no weights; looked for {', '.join(WEIGHTS)}")
    return path / (found[0] if len(found) == 1 else _latest(path, found))


def weight_names(names: Iterable[str]) -> list[str]:
    """Return those of a folder's files that match the first of `WEIGHTS` that any file matches."""
    names = sorted(names)
    found = ([n for n in names if fnmatch.fnmatchcase(n, pattern)] for pattern in WEIGHTS)
    return next(filter(None, found), [])


def _latest(folder: pathlib.Path, found: list[str]) -> str:
    """Return the name of the checkpoint that TensorFlow's `checkpoint` file calls the latest."""
    state = folder / "checkpoint"
    stated = _LATEST.match(state.read_bytes()) if state.is_file() else None
    if stated:
        # The name alone: the path is where it was written, and may lead anywhere.
        latest = stated[1].rpartition(b"/")[2].decode(errors="replace") + ".index"
        if latest in found:
            return latest
    raise ValueError(
        f"{folder} holds {len(found)} weight files ({', '.join(found[:5])}); give the path of one "
        "of them"
    )


def find_one(folder: pathlib.Path, names: Collection[str], what: str) -> pathlib.Path:
    """Return the first of the files `names` in `folder`."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} holds no {what}; looked for {', '.join(names)}")


@contextlib.contextmanager
def new_folder(
    directory: str | os.PathLike, files: Collection[str], overwrite: bool
) -> Iterator[str]:
    """Yield a temporary folder to write to, which becomes `directory` if the block succeeds.

    That must not exist yet, or be empty. With `overwrite` a folder that holds some of `files`, what
    is written, and nothing else is replaced.
    """
    directory = check_new_folder(directory, files, overwrite)
    try:
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        with written_whole(directory) as folder:
            os.makedirs(folder)
            yield folder
            card = folder_card(folder, directory)
            if card is not None:
                write_text(os.path.join(folder, CARD), card)
    except WriteError:
        raise
    except (OSError, SafetensorError) as error:
        raise write_error(directory, error) from error


def check_new_folder(directory: str | os.PathLike, files: Collection[str], overwrite: bool) -> str:
    """Return the path that `new_folder` writes to."""
    directory = os.path.realpath(os.fspath(directory))
    if os.path.exists(directory):
        held = sorted(os.listdir(directory)) if os.path.isdir(directory) else None
        others = set(held or ()) - {*files, CARD}
        if held is None or others:
            contents = f" and holds {sorted(others)[:5]}" if others else ""
            raise FileExistsError(f"{directory} exists{contents}; choose another folder")
        if held and not overwrite:
            raise FileExistsError(
                f"{directory} holds {held}; choose another folder, or `overwrite` it"
            )
    return directory


def write_model(folder: str, stated: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> None:
    """Write `config.json` and `model.safetensors` into a folder."""
    config, weights = (os.path.join(folder, name) for name in MODEL_FILES)
    # `from_pretrained` refuses a file without this metadata.
    save_file(dict(tensors), weights, metadata={"format": "pt"})
    write_json(config, stated)
