"""Downloads of modules: tensorflow_hub's resolvers and cache, with checked unpacking.

tensorflow_hub accepts a download that was cut off between two files, unpacks any amount of data,
fails for archives that do not list their folders, and never times out. Here the archive is
downloaded completely, checked, and then unpacked by `tfnlp.hub.loading.archives`. The lock, the
names in the cache and the renaming are tensorflow_hub's, so the two share their cache.
"""

import contextlib
import hashlib
import http.client
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from typing import BinaryIO

import tensorflow as tf
import tensorflow_hub as hub
from tensorflow_hub import compressed_module_resolver, resolver

from tfnlp.hub.loading import archives

_TIMEOUT = 60  # seconds without data
_CHUNK = 1 << 20
_FREE = 1 << 26  # bytes of disk that a download leaves free


class _Http(compressed_module_resolver.HttpCompressedFileResolver):
    def __call__(self, handle: str) -> str:
        return _cached(handle, self._open)

    def _open(self, handle: str) -> BinaryIO:
        # Module servers answer this query with the archive, other servers ignore it.
        request = urllib.request.Request(self._append_compressed_format_query(handle))
        return urllib.request.urlopen(request, timeout=_TIMEOUT, context=self._context)


class _Gcs(compressed_module_resolver.GcsCompressedFileResolver):
    def __call__(self, handle: str) -> str:
        return _cached(handle, lambda name: tf.io.gfile.GFile(name, "rb"))


def download(handle: str) -> str:
    """Download an `http(s)://` or `gs://` archive; return its folder in tensorflow_hub's cache.

    A `gs://` folder is not copied: it is read from there.

    Raises:
        OSError: if it can't be downloaded or written.
        ValueError: if it is no archive of one SavedModel (see `archives.unpack`).
    """
    for found in (_Http(), _Gcs()):
        if found.is_supported(handle):
            return found(handle)
    with _download_errors(handle):
        return hub.resolve(handle)


def cache_dir() -> str:
    """Return tensorflow_hub's cache: `TFHUB_CACHE_DIR`, its flag or a temporary folder."""
    folder = resolver.tfhub_cache_dir(use_temp=True)
    return folder if "://" in folder else os.path.abspath(folder)


def _cached(handle: str, open_remote: Callable[[str], BinaryIO]) -> str:
    """Unpack into the folder that tensorflow_hub names: the sha1 of the URL. It has a lock."""

    def fill(handle: str, folder: str) -> None:
        with tempfile.TemporaryFile(dir=None if "://" in folder else folder) as archive:
            with _download_errors(handle), contextlib.closing(open_remote(handle)) as remote:
                _copy(remote, archive)
            archives.unpack(archive, folder, handle)

    name = hashlib.sha1(handle.encode()).hexdigest()
    try:
        folder = resolver.create_local_module_dir(cache_dir(), name)
        return resolver.atomic_download(handle, fill, folder)
    except tf.errors.OpError as error:
        raise OSError(
            f"{handle} could not be written to the cache {cache_dir()} "
            f"({_reason(error)}); set TFHUB_CACHE_DIR to a folder that you can write to"
        ) from error


def _copy(remote: BinaryIO, archive: BinaryIO) -> None:
    while data := remote.read(_CHUNK):
        free = shutil.disk_usage(archive.fileno()).free
        if free < _FREE + len(data):
            raise OSError(f"only {free} bytes of disk are free after {archive.tell()} bytes")
        archive.write(data)


@contextlib.contextmanager
def _download_errors(handle: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, http.client.HTTPException, tf.errors.OpError) as error:
        raise OSError(
            f"{handle} could not be downloaded ({_reason(error)}); check the URL and the network, "
            "or download the archive yourself and give its path"
        ) from error


def _reason(error: Exception) -> str:
    text = str(getattr(error, "message", None) or error).strip()
    return text.split("\n")[0] or type(error).__name__
