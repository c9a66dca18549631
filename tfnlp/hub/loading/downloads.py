"""The cache of unpacked archives: those of this machine, and those of addresses.

A module of an address is in the folder that `tensorflow_hub` looks for too: the sha1 of the
address. An archive of this machine is under the sha256 of its bytes.
"""

import hashlib
import http.client
import os
import re
import shutil
import tempfile
import time
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable
from typing import BinaryIO

import tensorflow as tf

from tfnlp.files import first_line, is_remote
from tfnlp.hub.loading.archives import unpack
from tfnlp.hub.loading.checks import GRAPHS

_TIMEOUT = 60  # seconds without data
_CHUNK = 1 << 20
_PARTIAL = re.compile(r"[0-9a-f]{40,64}\.[0-9a-f]{8}\.tmp")
_ABANDONED = 24 * 3600  # seconds after which a partial folder is no longer in use


def downloaded(address: str) -> str:
    """Return the SavedModel of an `http(s)://` or `gs://` archive, downloaded once."""

    def fill(folder: str) -> None:
        with tempfile.TemporaryFile(dir=folder) as archive:
            try:
                with _opened(address) as remote:
                    shutil.copyfileobj(remote, archive, _CHUNK)
            except (OSError, ValueError, http.client.HTTPException, tf.errors.OpError) as error:
                raise OSError(
                    f"{address} could not be downloaded ({first_line(error)}); check the URL and "
                    "the network, or download the archive yourself and give its path"
                ) from error
            unpack(archive, folder, address)

    return _cached(hashlib.sha1(address.encode()).hexdigest(), fill, address)


def unpacked(path: str, shown: str) -> str:
    """Return the SavedModel of an archive of this machine, unpacked once; `shown` names it."""
    with open(path, "rb") as archive:
        digest = hashlib.file_digest(archive, "sha256").hexdigest()
        return _cached(digest, lambda folder: unpack(archive, folder, shown), shown)


def _opened(address: str) -> BinaryIO:
    if address.startswith("gs://"):
        return tf.io.gfile.GFile(address, "rb")
    # Module servers answer this query with the archive, other servers ignore it.
    parts = urllib.parse.urlsplit(address)
    query = [*urllib.parse.parse_qsl(parts.query), ("tf-hub-format", "compressed")]
    address = parts._replace(query=urllib.parse.urlencode(query)).geturl()
    return urllib.request.urlopen(urllib.request.Request(address), timeout=_TIMEOUT)


def _cached(key: str, fill: Callable[[str], None], shown: str) -> str:
    """Return the SavedModel in a folder of the cache, which holds complete ones only.

    Several processes may fill it at the same time; the folder of the first one is kept. `fill`
    writes the files into an empty folder.
    """
    cache = _cache_dir()
    folder = os.path.join(cache, key)
    if not os.path.isdir(folder):
        partial = f"{folder}.{uuid.uuid4().hex[:8]}.tmp"
        try:
            os.makedirs(partial)
        except OSError as error:
            raise OSError(
                f"the cache {cache} can't be written ({first_line(error)}); set TFHUB_CACHE_DIR "
                "to a folder that you can write to"
            ) from error
        try:
            _remove_abandoned(cache)
            fill(partial)
            found = _saved_models(partial)
            if len(found) != 1:
                raise ValueError(f"{shown} holds {len(found)} SavedModels; expected one")
            try:
                os.rename(partial, folder)
            except OSError:
                if not os.path.isdir(folder):
                    raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    found = _saved_models(folder)
    if len(found) != 1:
        raise FileNotFoundError(
            f"{shown} is cached in {folder}, which holds {len(found)} SavedModels; delete that "
            "folder to unpack it again"
        )
    return found[0]


def _cache_dir() -> str:
    folder = os.environ.get("TFHUB_CACHE_DIR", "")
    if is_remote(folder):
        raise ValueError(f"TFHUB_CACHE_DIR={folder} must be a folder of this machine")
    return os.path.abspath(folder or os.path.join(tempfile.gettempdir(), "tfhub_modules"))


def _saved_models(folder: str) -> list[str]:
    """Return the folders of the SavedModels in a folder; one inside of another is part of it."""
    found = []
    for place, folders, files in os.walk(folder):
        if any(name in files for name in GRAPHS):
            found.append(place)
            folders.clear()
    return found


def _remove_abandoned(cache: str) -> None:
    """Delete the partial folders of processes that were killed while they unpacked."""
    for name in os.listdir(cache):
        left = os.path.join(cache, name)
        if _PARTIAL.fullmatch(name) and time.time() - os.stat(left).st_mtime > _ABANDONED:
            shutil.rmtree(left, ignore_errors=True)
