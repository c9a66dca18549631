"""Modules by address: tensorflow_hub's resolvers and cache, with an unpacking that is checked.

tensorflow_hub's own takes a download that was cut off between two files for a whole one, fills
the disk with whatever an archive claims to hold, fails where folders are not listed and never
times out. Here the archive is fetched whole, read through, and then unpacked by
`tfnlp.hub.loading.archives`; the lock, the names in the cache and the renaming are tensorflow_hub's, so
that what either of them fetched the other finds.
"""

import contextlib
import hashlib
import http.client
import os
import shutil
import tempfile
import urllib.request

import tensorflow as tf
import tensorflow_hub as hub
from tensorflow_hub import compressed_module_resolver, resolver

from tfnlp.hub.loading import archives

_TIMEOUT = 60  # seconds without a byte
_CHUNK = 1 << 20
_ROOM = 1 << 26  # bytes of disk that a download leaves free


class _Http(compressed_module_resolver.HttpCompressedFileResolver):
    def __call__(self, handle):
        return _cached(handle, self._open)

    def _open(self, handle):
        # Servers of modules answer this query with the archive, others ignore it.
        request = urllib.request.Request(self._append_compressed_format_query(handle))
        return urllib.request.urlopen(request, timeout=_TIMEOUT, context=self._context)


class _Gcs(compressed_module_resolver.GcsCompressedFileResolver):
    def __call__(self, handle):
        return _cached(handle, lambda name: tf.io.gfile.GFile(name, "rb"))


def download(handle):
    """The folder in tensorflow_hub's cache of what is at an `http(s)://` or `gs://` address; a
    `gs://` folder is read where it is.

    Raises:
        OSError: if it can't be fetched or written.
        ValueError: if it is no archive of one SavedModel (see `archives.unpack`).
    """
    for found in (_Http(), _Gcs()):
        if found.is_supported(handle):
            return found(handle)
    with _fetching(handle):
        return hub.resolve(handle)


def cache_dir():
    """tensorflow_hub's: `TFHUB_CACHE_DIR`, the flag of that name or a temporary folder."""
    folder = resolver.tfhub_cache_dir(use_temp=True)
    return folder if "://" in folder else os.path.abspath(folder)


def _cached(handle, open_remote):
    """As tensorflow_hub does it: unpacked under the sha1 of the address, by one at a time."""

    def fill(handle, folder):
        with tempfile.TemporaryFile(dir=None if "://" in folder else folder) as archive:
            with _fetching(handle), contextlib.closing(open_remote(handle)) as remote:
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


def _copy(remote, archive):
    while data := remote.read(_CHUNK):
        free = shutil.disk_usage(archive.fileno()).free
        if free < _ROOM + len(data):
            raise OSError(f"the disk has {free} bytes left after {archive.tell()}")
        archive.write(data)


@contextlib.contextmanager
def _fetching(handle):
    try:
        yield
    except (OSError, ValueError, http.client.HTTPException, tf.errors.OpError) as error:
        raise OSError(
            f"{handle} could not be fetched ({_reason(error)}); check the address and the network, "
            "or download the archive yourself and give its path"
        ) from error


def _reason(error):
    text = str(getattr(error, "message", None) or error).strip()
    return text.split("\n")[0] or type(error).__name__
