"""SHA-256 of files, to find out later which of them was changed.

The large files of TensorFlow's checkpoints and SavedModels, `variables.data-*`, are left out: their
index, which is not, has a CRC32C of each tensor, and TensorFlow compares it at each read.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

from tfnlp.files import is_remote
from tfnlp.optional_tensorflow import tf


def checksums(folder: str, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files in a local or remote folder, by name.

    `names` are those of files, and of folders for all files below them; what is missing is left
    out.
    """
    files = [file for name in names for file in sorted(_files(folder, name))]
    return {f: _sha256(folder, f) for f in files if "/variables.data-" not in f}


def check_files(folder: str, recorded: Any, record: str, remedy: str) -> None:
    """Check that files are those whose checksums were recorded; others are ignored.

    `recorded` is what `checksums` returned, or None; it was read from the file `record`, so it may
    be anything.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file was changed, or the record is damaged.
    """
    if recorded is None:
        return
    if not isinstance(recorded, dict) or not all(map(_is_name, recorded)):
        raise ValueError(f"{record} has checksums of something else than files beside it; {remedy}")
    for name, checksum in recorded.items():
        path = f"{folder.rstrip('/')}/{name}"
        if not list(_files(folder, name)):
            raise FileNotFoundError(f"{path} is missing, but {record} lists it; {remedy}")
        if _sha256(folder, name) != checksum:
            raise ValueError(
                f"{path} was changed: its SHA-256 is not the one in {record}; {remedy}"
            )


def _is_name(name: str) -> bool:
    return not {"", ".", ".."} & set(name.split("/")) and name.isprintable()


def _files(folder: str, name: str) -> Iterator[str]:
    """Yield the name of a file, or of all files below a folder; nothing if there is neither."""
    path = f"{folder.rstrip('/')}/{name}"
    if is_remote(folder):
        if tf.io.gfile.isdir(path):
            for inner in tf.io.gfile.listdir(path):
                yield from _files(folder, f"{name}/{inner.rstrip('/')}")
        elif tf.io.gfile.exists(path):
            yield name
    elif os.path.isdir(path):
        for inner in os.listdir(path):
            yield from _files(folder, f"{name}/{inner}")
    elif os.path.isfile(path):
        yield name


def _sha256(folder: str, name: str) -> str:
    path = f"{folder.rstrip('/')}/{name}"
    if is_remote(folder):
        with tf.io.gfile.GFile(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
