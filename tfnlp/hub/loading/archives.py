"""Unpacking an archive that a stranger may have made."""

import gzip
import os
import tarfile
import zipfile
import zlib
from typing import BinaryIO

from tfnlp.files import first_line

MAX_MEMBERS = 10_000
ANY_SIZE, MAX_RATIO = 1 << 30, 100  # content above 1 GiB is at most 100 times the packed size
_CHUNK = 1 << 20
_DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, ValueError,
    OverflowError, LookupError, RuntimeError,
)  # fmt: skip


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
