"""A folder of what was made of texts, by content, so that the same text is tokenized once.

It is `TFNLP_CACHE`, else `tfnlp` in `XDG_CACHE_HOME` or `~/.cache`. Its folder `corpora` has a
folder for each tokenized text, and may be deleted at any time. An entry that no run used for 30
days is deleted when another one is written.
"""

import contextlib
import errno
import functools
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any, TypeVar

import tensorflow as tf

import tfnlp

T = TypeVar("T")

_KEPT = 30 * 24 * 3600  # seconds after the last use
_PARTIAL = "partial-"
_ABANDONED = 24 * 3600  # seconds without a change, after which nobody writes a partial entry
_DECIDING = ("sentencex", "tokenizers")  # their versions decide what is made
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR)


def cache_folder() -> str:
    """Return the folder, which exists."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    root = os.environ.get("TFNLP_CACHE") or os.path.join(home, "tfnlp")
    folder = os.path.join(root, "corpora")
    with disk_errors(folder):
        os.makedirs(folder, exist_ok=True)
    return folder


@contextlib.contextmanager
def disk_errors(folder: str) -> Iterator[None]:
    """Turn an error of writing to the cache into one that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK:
            raise
        raise OSError(
            f"{folder} can't be written ({os.strerror(error.errno)}); free space there, or set "
            "TFNLP_CACHE to another folder"
        ) from error


def digest(*parts: Any) -> str:
    """Return a name for what `parts`, which must be JSON, and this version of tfnlp decide."""
    return hashlib.sha256(json.dumps([_versions(), *parts]).encode()).hexdigest()[:32]


@functools.cache
def _versions() -> list[str]:
    """Return what decides how text is read, beside its arguments: versions and source files."""
    code = hashlib.sha256()
    root = pathlib.Path(tfnlp.__file__).parent
    for package in ("text", "data/corpus"):
        for path in sorted((root / package).rglob("*.py")):
            code.update(path.read_bytes())
    versions = map(metadata.version, _DECIDING)
    return [code.hexdigest(), tf.__version__, *versions, sys.byteorder]


def file_digest(path: str) -> str:
    """Return the SHA-256 of a file's contents."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cached(key: str, build: Callable[[str], Any], read: Callable[[str], T]) -> T:
    """Return `read(folder)` of an entry, which `build(folder)` writes if it is not there.

    An entry is written under another name and renamed when it is complete. So processes that write
    the same entry at once do not disturb each other, and a killed one leaves no half of it. An
    entry that `read` can't read is written anew. For the key see `digest`.
    """
    folder = os.path.join(cache_folder(), key)
    if os.path.isdir(folder):
        os.utime(folder)
        with contextlib.suppress(OSError, ValueError):
            return read(folder)
        shutil.rmtree(folder, ignore_errors=True)
    with disk_errors(folder):
        _clean()
        partial = tempfile.mkdtemp(prefix=_PARTIAL, dir=cache_folder())
        try:
            build(partial)
            for path in pathlib.Path(partial).rglob("*"):
                if path.is_file():
                    with open(path, "rb+") as file:
                        os.fsync(file.fileno())
            try:
                os.rename(partial, folder)
            except OSError:
                if not os.path.isdir(folder):  # else another process was faster
                    raise
            return read(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _clean() -> None:
    """Delete entries that were not used for long, and what killed processes left."""
    for entry in os.scandir(cache_folder()):
        with contextlib.suppress(OSError):  # another process deletes it
            limit, times = _KEPT, [entry.stat().st_mtime]
            if entry.name.startswith(_PARTIAL):
                limit = _ABANDONED
                times += [file.stat().st_mtime for file in os.scandir(entry.path)]
            if time.time() - max(times) > limit:
                shutil.rmtree(entry.path)
