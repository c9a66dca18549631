"""Archives of SavedModels, of this machine or downloaded, unpacked once into a cache."""

import gzip
import hashlib
import http.client
import os
import re
import shutil
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request
import uuid
import zipfile
import zlib
from collections.abc import Callable
from typing import BinaryIO

import tensorflow as tf

from tfnlp.files import first_line, is_remote
from tfnlp.hub.loading.checks import GRAPHS

_TIMEOUT = 60  # seconds without data
_PARTIAL = re.compile(r"[0-9a-f]{40,64}\.[0-9a-f]{8}\.tmp")
_ABANDONED = 24 * 3600  # seconds after which a partial folder is no longer in use
MAX_MEMBERS = 10_000
ANY_SIZE, MAX_RATIO = 1 << 30, 100  # content above 1 GiB is at most 100 times the packed size
_CHUNK = 1 << 20
_DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, ValueError,
    OverflowError, LookupError, RuntimeError,
)  # fmt: skip


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
    cache = os.environ.get("TFHUB_CACHE_DIR", "")
    if is_remote(cache):
        raise ValueError(f"TFHUB_CACHE_DIR={cache} must be a folder of this machine")
    cache = os.path.abspath(cache or os.path.join(tempfile.gettempdir(), "tfhub_modules"))
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
            count = len(_saved_models(partial))
            if count != 1:
                raise ValueError(f"{shown} holds {count} SavedModels; expected one")
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


def unpack(archive: BinaryIO, folder: str, name: str) -> None:
    """Write the files of a tar file, a gzipped one or a zip file to a folder.

    After an error the folder may hold some of the files; the caller deletes it.

    Raises:
        ValueError: if it is no archive, is cut off or damaged, holds anything but files and
            folders, or a path that leads out of the folder, more than MAX_MEMBERS members, or over
            MAX_RATIO times its own size (above ANY_SIZE bytes).
    """
    limit = max(ANY_SIZE, MAX_RATIO * archive.seek(0, os.SEEK_END))
    archive.seek(0)
    start = archive.read(2)
    archive.seek(0)
    try:
        if start == b"PK":
            _unzip(archive, folder, limit)
        else:
            _untar(gzip.open(archive) if start == b"\x1f\x8b" else archive, folder, limit)
    except _DAMAGE as error:
        raise ValueError(
            f"{name} can't be unpacked ({first_line(error)[:200]}); pack or download it again"
        ) from error


def _unzip(archive: BinaryIO, folder: str, limit: int) -> None:
    with zipfile.ZipFile(archive) as packed:
        members = packed.infolist()
        if len(members) > MAX_MEMBERS:
            raise ValueError(f"it holds over {MAX_MEMBERS} members")
        if sum(member.file_size for member in members) > limit:
            raise ValueError(f"it would grow to over {limit} bytes")
        for member in members:
            if os.path.isabs(member.filename) or ".." in member.filename.split("/"):
                raise ValueError(f"the path {member.filename!r} leads out of it")
            packed.extract(member, folder)


def _untar(archive: BinaryIO, folder: str, limit: int) -> None:
    stream = _Limited(archive, limit)
    with tarfile.open(fileobj=stream, mode="r|", encoding="utf-8") as tar:
        for count, member in enumerate(tar):
            if count == MAX_MEMBERS:
                raise ValueError(f"it holds over {MAX_MEMBERS} members")
            if not (member.isreg() or member.isdir()) or member.issparse():
                raise ValueError(f"{member.name!r} is neither a file nor a folder")
            tar.extract(member, folder, filter="data")
        # `tarfile` also ends at bytes that are no header, and where the file was cut off.
        end = stream.last[min(0, tar.offset - stream.position) :][:512]
        if tar.offset >= stream.position or end != bytes(512):
            raise ValueError("its end is not marked")
    while stream.read(_CHUNK):  # gzip's checksum is at the end
        pass


class _Limited:
    """File of which at most `limit` bytes can be read, headers and padding among them."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self._file, self._limit = file, limit
        self.position, self.last = 0, b""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end."""
        data = self._file.read(size)
        self.position += len(data)
        if self.position > self._limit:
            raise ValueError(f"it would grow to over {self._limit} bytes")
        self.last = data or self.last
        return data
