"""Unpacking an untrusted archive that holds one SavedModel.

Only plain files and folders with safe names are accepted. As the target then holds no links, no
name can lead out of it. Of `tarfile` only the parsing of headers is used, not its extraction.
"""

import contextlib
import gzip
import posixpath
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import tensorflow as tf

from tfnlp.hub.loading.checks import GRAPHS
from tfnlp.text.lines import shown

MAX_MEMBERS = 10_000
MAX_HEADER, MAX_HEADERS = 1 << 16, 1 << 25  # bytes of one member's headers, of all together
MAX_TRAILER = 1 << 24  # bytes of padding behind the last member
ANY_RATIO, MAX_RATIO = 1 << 30, 100  # content above 1 GiB is at most 100 times the packed size
_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE)
_KINDS = {
    tarfile.LNKTYPE: "a hard link", tarfile.SYMTYPE: "a symbolic link", tarfile.FIFOTYPE: "a fifo",
    tarfile.CHRTYPE: "a device", tarfile.BLKTYPE: "a device",
}  # fmt: skip
_DAMAGE = (
    tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, OverflowError, ValueError,
    LookupError, RecursionError,
)  # fmt: skip


class InvalidArchive(ValueError):
    """Error that says what is wrong with an archive, without the name of the archive."""


def unpack(archive: BinaryIO, folder: str, name: str) -> None:
    """Write the files of an archive to `folder`, after reading it to its end once to check it.

    Args:
        archive: a seekable binary file, a tar file or a gzipped tar file.
        folder: an empty folder of the local or a remote file system. After an error it may hold
            some of the files; the caller deletes it.
        name: name of the archive in messages.

    Raises:
        ValueError: if it is no archive, is cut off or damaged, holds none or several SavedModels
            or anything but plain files and folders, has a path that leads out of the folder,
            lists a file twice, or holds more than MAX_MEMBERS members, over MAX_RATIO times its
            own size (above ANY_RATIO bytes) or over MAX_HEADERS bytes of headers.
        OSError: if it can't be read or written, or needs more space than the disk has.
    """
    with _named_errors(name):
        files, folders, total = set(), set(), 0
        free = None if "://" in folder else shutil.disk_usage(folder).free
        packed = archive.seek(0, 2)
        for path, size, _ in _members(archive):
            total += size or 0
            if total > ANY_RATIO and total > MAX_RATIO * packed:
                raise InvalidArchive(f"would grow from {packed} to over {total} bytes")
            if free is not None and total > free:
                raise OSError(f"{name} needs over {total} bytes, but {folder} has {free} free")
            _add(path, size, files, folders)
        outermost(files)
    with _named_errors(name):
        for path, size, stream in _members(archive):
            target = f"{folder}/{path}"
            tf.io.gfile.makedirs(target if size is None else posixpath.dirname(target))
            if size is not None:
                with tf.io.gfile.GFile(target, "wb") as file:
                    file.write(b"")  # an empty file is made only by a write
                    for data in _content(stream, size, path):
                        file.write(data)


def outermost(files: Iterable[str]) -> str:
    """Return the folder of the only SavedModel among relative paths of files, "" for the root.

    A SavedModel inside of another is part of it.

    Raises:
        InvalidArchive: if there are none or several.
    """
    folders = {posixpath.dirname(f) for f in files if posixpath.basename(f) in GRAPHS}
    outer = sorted(f for f in folders if not any(f and _holds(other, f) for other in folders))
    if not outer:
        raise InvalidArchive(f"holds no SavedModel: there is no {GRAPHS[0]} in it")
    if len(outer) > 1:
        first = " and ".join(shown(f) for f in outer[:2])
        raise InvalidArchive(f"holds {len(outer)} SavedModels, such as {first}; expected one")
    return outer[0]


def _holds(outer: str, inner: str) -> bool:
    return outer != inner and (not outer or inner.startswith(outer + "/"))


def _add(path: str, size: int | None, files: set[str], folders: set[str]) -> None:
    """Add a member to `files` or `folders`, and its parents, which need not be listed."""
    if path in files or (size is not None and path in folders):
        raise InvalidArchive(f"lists {shown(path)} twice")
    if size is not None:
        files.add(path)
    else:
        folders.add(path)
    while path := posixpath.dirname(path):
        if path in files:
            raise InvalidArchive(f"lists {shown(path)} both as a file and as a folder")
        folders.add(path)


def _members(archive: BinaryIO) -> Iterator[tuple[str, int | None, "_ForwardReader"]]:
    """Yield (relative path, size or None for a folder, stream at its content) of each member."""
    archive.seek(0)
    start = archive.read(512)
    archive.seek(0)
    if start[:2] != _GZIP and (len(start) < 512 or start[257:262] != b"ustar") and any(start):
        raise InvalidArchive(
            f"is neither a tar nor a gzipped tar file: it begins with {start[:8]!r}"
        )
    stream = _ForwardReader(gzip.GzipFile(fileobj=archive) if start[:2] == _GZIP else archive)
    tar, headers = None, 0
    for count in range(MAX_MEMBERS + 1):
        stream.allowed = MAX_HEADER
        if tar is None:
            tar = tarfile.TarFile(fileobj=stream, encoding="utf-8", errors="surrogateescape")
        member = tar.next()
        headers += MAX_HEADER - stream.allowed
        if member is None:
            break
        if count == MAX_MEMBERS or headers > MAX_HEADERS:
            raise InvalidArchive(
                f"holds over {MAX_MEMBERS} members or {MAX_HEADERS} bytes of headers"
            )
        path = _path(member.name)
        if member.type not in _PLAIN or member.issparse():
            kind = _KINDS.get(member.type, "a sparse file or something unknown")
            raise InvalidArchive(f"holds {shown(path)}, {kind}; expected files and folders only")
        if member.size < 0:
            raise InvalidArchive(f"is damaged: {shown(path)} has {member.size} bytes")
        stream.allowed = 0
        if member.isdir():
            if path:
                yield path, None, stream
        elif path:
            yield path, member.size, stream
        else:
            raise InvalidArchive(f"holds a file named {shown(member.name)}")
    # `tarfile` also stops at bytes that are no header. Without this check an archive that was cut
    # off there would look complete.
    if len(stream.last) != 512 or any(stream.last):
        raise InvalidArchive("is cut off or damaged: its end is not marked")
    stream.allowed = MAX_TRAILER
    while stream.read(min(_CHUNK, stream.allowed or 1)):  # to the end, for gzip's checksum
        pass


def _content(stream: "_ForwardReader", size: int, path: str) -> Iterator[bytes]:
    while size:
        stream.allowed = _CHUNK
        data = stream.read(min(size, _CHUNK))
        if not data:
            raise InvalidArchive(f"is cut off inside of {shown(path)}")
        size -= len(data)
        yield data


def _path(name: str) -> str:
    """Return `name` as a relative path without "." parts, "" for the root."""
    reason = None
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        reason = "an absolute path"
    elif ".." in name.split("/"):
        reason = "a path that leads out of it"
    elif "\0" in name or "\\" in name:
        reason = "a name with a NUL or a backslash"
    elif any("\ud800" <= c <= "\udfff" for c in name):
        reason = "a name that is not UTF-8"
    if reason:
        raise InvalidArchive(f"holds {shown(name)}, {reason}")
    return "/".join(part for part in name.split("/") if part not in ("", "."))


class _ForwardReader:
    """File that is read forwards only, at most `allowed` bytes.

    A header may state any size; `tarfile` would then read it all into memory or seek back.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._position = file, 0
        self.allowed, self.last = 0, b""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer at the end."""
        if not 0 <= size <= self.allowed:
            raise InvalidArchive(
                f"is damaged: it has a header or padding of over {self.allowed} bytes"
            )
        self.last = self._file.read(size)
        self.allowed -= len(self.last)
        self._position += len(self.last)
        return self.last

    def seek(self, position: int) -> None:
        """Move forwards to `position`."""
        if position < self._position:
            raise InvalidArchive("is damaged: a header points back")
        while self._position < position:
            data = self._file.read(min(_CHUNK, position - self._position))
            if not data:
                raise InvalidArchive("is cut off inside of a file")
            self._position += len(data)

    def tell(self) -> int:
        """Return the position."""
        return self._position


@contextlib.contextmanager
def _named_errors(name: str) -> Iterator[None]:
    """Turn the errors of reading an archive into one line that names it."""
    try:
        yield
    except InvalidArchive as error:
        raise ValueError(f"{name} {error}; pack or download it again") from error
    except tf.errors.OpError as error:
        reason = str(error.message).split("\n")[0]
        raise OSError(
            f"{name} could not be unpacked ({reason}); free some space, or set TFHUB_CACHE_DIR "
            "to another folder"
        ) from error
    except _DAMAGE as error:
        raise ValueError(
            f"{name} is cut off or damaged ({str(error) or type(error).__name__}); pack or "
            "download it again"
        ) from error
