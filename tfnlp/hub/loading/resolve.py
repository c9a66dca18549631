"""Finding the folder of a SavedModel from a path, an archive or a URL."""

import hashlib
import os
import re
import shutil
import time
import uuid

import tensorflow as tf

from tfnlp.hub.loading.archives import InvalidArchive, outermost, unpack
from tfnlp.hub.loading.checks import GRAPHS, is_saved_model

ARCHIVES = (".tar.gz", ".tgz", ".tar")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+://")
_PARTIAL = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{8}\.tmp")
_ABANDONED = 24 * 3600  # seconds after which a partial folder is no longer in use


def resolve(handle: str | os.PathLike) -> str:
    """Return the folder of a SavedModel.

    Args:
        handle: one of
            - a folder with a saved_model.pb (or .pbtxt) in it; `~` is expanded;
            - a `.tar`, `.tar.gz` or `.tgz` file with one SavedModel in it, at its root or in a
              folder. It is unpacked once into tensorflow_hub's cache (`TFHUB_CACHE_DIR`, or a
              temporary folder), under the sha256 of its bytes;
            - an `http(s)://` or `gs://` URL of such an archive or of a page on tfhub.dev or
              kaggle.com, downloaded once into the same cache by tensorflow_hub's resolvers, or a
              `gs://` folder.

    The cache holds complete modules only, also if several processes fill it at the same time or
    one of them is killed.

    Returns:
        The path. The files in it are not checked: see `tfnlp.hub.loading.checks`.

    Raises:
        FileNotFoundError: if the path does not exist, or holds no SavedModel.
        ValueError: if it is another kind of file, or the archive is damaged, unsafe or holds
            several SavedModels (see `archives.unpack`).
        OSError: if it can't be downloaded, read or written.
    """
    if not isinstance(handle, str | os.PathLike) or not os.fspath(handle):
        raise ValueError(
            f"handle is {handle!r}; expected the folder of a SavedModel, an archive "
            f"({', '.join(ARCHIVES)}) or an http(s):// or gs:// URL"
        )
    path = os.fsdecode(os.fspath(handle))
    shown = path if path.isprintable() else repr(path)
    if _ADDRESS.match(path):
        return _downloaded(path, shown)
    path = os.path.abspath(os.path.expanduser(path)) if "\0" not in path else path
    if os.path.isdir(path):
        return _checked_folder(path, shown)
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"{shown} does not exist; give the folder of a SavedModel, an archive "
            f"({', '.join(ARCHIVES)}) or an http(s):// or gs:// URL"
        )
    if not (os.path.isfile(path) and path.lower().endswith(ARCHIVES)):
        raise ValueError(
            f"{shown} is neither the folder of a SavedModel nor an archive of one "
            f"({', '.join(ARCHIVES)}); give the folder that {GRAPHS[0]} is in"
        )
    return _unpacked(path, shown)


def _checked_folder(path: str, shown: str) -> str:
    if not is_saved_model(path):
        inside = [
            name
            for name in sorted(os.listdir(path))
            if os.path.isfile(os.path.join(path, name, GRAPHS[0]))
        ]
        hint = (
            f"give one of its folders {', '.join(inside[:4])}"
            if inside
            else ("give a folder that `tfnlp export` or tf.saved_model.save wrote")
        )
        raise FileNotFoundError(f"{shown} is not a SavedModel: it has no {GRAPHS[0]}; {hint}")
    return path


def _downloaded(address: str, shown: str) -> str:
    if not address.startswith(("http://", "https://", "gs://")) or not address.isprintable():
        raise ValueError(
            f"{shown} cannot be downloaded; expected a URL that begins with http://, https:// or "
            "gs://, or a path"
        )
    from tfnlp.hub.loading.downloads import download  # tensorflow_hub comes with Keras 2

    return _module_in(download(address), shown)


def _unpacked(path: str, shown: str) -> str:
    """Unpack an archive into the cache; of several processes the first one's folder is kept."""
    from tfnlp.hub.loading.downloads import cache_dir

    with open(path, "rb") as archive:
        digest = hashlib.file_digest(archive, "sha256").hexdigest()
        folder = f"{cache_dir()}/{digest}"
        if not tf.io.gfile.isdir(folder):
            partial = f"{folder}.{uuid.uuid4().hex[:8]}.tmp"
            try:
                _make(partial)
                _remove_abandoned(cache_dir())
                unpack(archive, partial, shown)
                _rename(partial, folder)
            finally:
                if tf.io.gfile.exists(partial):
                    tf.io.gfile.rmtree(partial)
    return _module_in(folder, shown)


def _make(folder: str) -> None:
    try:
        tf.io.gfile.makedirs(folder)
    except tf.errors.OpError as error:
        raise OSError(
            f"the cache {os.path.dirname(folder)} cannot be written ({error.message}); set "
            "TFHUB_CACHE_DIR to a folder that you can write to"
        ) from error


def _rename(partial: str, folder: str) -> None:
    try:
        tf.io.gfile.rename(partial, folder)
    except tf.errors.OpError as error:
        if not tf.io.gfile.isdir(folder):  # else another process wrote the same files first
            raise OSError(f"{folder} could not be written ({error.message})") from error


def _remove_abandoned(directory: str) -> None:
    """Delete the partial folders of processes that were killed while they unpacked."""
    for name in os.listdir(directory) if "://" not in directory else ():
        left = os.path.join(directory, name)
        if _PARTIAL.fullmatch(name) and time.time() - os.stat(left).st_mtime > _ABANDONED:
            shutil.rmtree(left, ignore_errors=True)


def _module_in(folder: str, shown: str) -> str:
    """Return the folder of the SavedModel in a folder of the cache."""
    try:
        files = [
            os.path.join(place, name)[len(folder) :].strip("/")
            for place, _, names in tf.io.gfile.walk(folder)
            for name in names
        ]
        inner = outermost(files)
    except tf.errors.OpError as error:
        raise OSError(f"{shown} cannot be read in {folder} ({error.message})") from error
    except InvalidArchive as error:
        raise FileNotFoundError(
            f"{shown} is cached in {folder}, which {error}; delete that folder to unpack it again"
        ) from error
    return os.path.join(folder, inner) if inner else folder
