"""Unpacking an archive that holds one SavedModel, whoever packed it.

Only plain files and folders with harmless names are taken, everything else is refused: with no
link in the target, no name can lead out of it. So nothing here rests on the extraction filters
of `tarfile`, of which only the parsing of headers is used.
"""

import contextlib
import gzip
import posixpath
import re
import shutil
import tarfile
import zlib

import tensorflow as tf

GRAPHS = ("saved_model.pb", "saved_model.pbtxt")
MAX_MEMBERS = 10_000
MAX_HEADER, MAX_HEADERS = 1 << 16, 1 << 25  # bytes of one member's headers, of all together
MAX_TRAILER = 1 << 24  # bytes of padding behind the last member
ANY_RATIO, MAX_RATIO = 1 << 30, 100  # an archive of over 1 GiB holds at most 100 times its size
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


class Refused(ValueError):
    """What is wrong with an archive, without its name."""


def unpack(archive, folder, name):
    """Writes the files of an archive to `folder`, after it was read through to its end once.

    Args:
        archive: a binary file that can be rewound, a tar file or a gzipped one.
        folder: an empty folder of the local or a remote file system. What was written before an
            error stays in it: it is the caller's to remove.
        name: what messages call the archive.

    Raises:
        ValueError: if it is no archive, is cut off or damaged, holds none or several SavedModels
            or anything but plain files and folders, names a place outside, lists a file twice,
            or holds more than MAX_MEMBERS members, over MAX_RATIO times its own size (above
            ANY_RATIO bytes) or over MAX_HEADERS bytes of headers.
        OSError: if it can't be read or written, or needs more room than the disk has.
    """
    with _naming(name):
        files, folders, total = set(), set(), 0
        room = None if "://" in folder else shutil.disk_usage(folder).free
        packed = archive.seek(0, 2)
        for path, size, _ in _members(archive):
            total += size or 0
            if total > ANY_RATIO and total > MAX_RATIO * packed:
                raise Refused(f"would grow from {packed} to over {total} bytes")
            if room is not None and total > room:
                raise OSError(f"{name} needs over {total} bytes, but {folder} has room for {room}")
            _add(path, size, files, folders)
        outermost(files)
    with _naming(name):
        for path, size, stream in _members(archive):
            target = f"{folder}/{path}"
            tf.io.gfile.makedirs(target if size is None else posixpath.dirname(target))
            if size is not None:
                with tf.io.gfile.GFile(target, "wb") as file:
                    file.write(b"")  # what nothing is written to is not made
                    for data in _content(stream, size, path):
                        file.write(data)


def outermost(files):
    """The one folder, "" for the root, of a SavedModel among relative paths of files; one inside
    of another is part of it.

    Raises:
        Refused: if there are none or several.
    """
    folders = {posixpath.dirname(f) for f in files if posixpath.basename(f) in GRAPHS}
    outer = sorted(f for f in folders if not any(f and _holds(other, f) for other in folders))
    if not outer:
        raise Refused(f"holds no SavedModel: there is no {GRAPHS[0]} in it")
    if len(outer) > 1:
        first = " and ".join(repr(f) for f in outer[:2])
        raise Refused(f"holds {len(outer)} SavedModels, {first} for two; expected one")
    return outer[0]


def _holds(outer, inner):
    return outer != inner and (not outer or inner.startswith(outer + "/"))


def _add(path, size, files, folders):
    """Notes a member; the folders above it need not be listed, but are no files."""
    if path in files or (size is not None and path in folders):
        raise Refused(f"lists {path!r} twice")
    if size is not None:
        files.add(path)
    else:
        folders.add(path)
    while path := posixpath.dirname(path):
        if path in files:
            raise Refused(f"lists {path!r} both as a file and as a folder")
        folders.add(path)


def _members(archive):
    """Yields (relative path, size or None for a folder, stream at its content) of each member."""
    archive.seek(0)
    start = archive.read(512)
    archive.seek(0)
    if start[:2] != _GZIP and (len(start) < 512 or start[257:262] != b"ustar") and any(start):
        raise Refused(f"is neither a tar nor a gzipped tar file: it begins with {start[:8]!r}")
    stream = _Forward(gzip.GzipFile(fileobj=archive) if start[:2] == _GZIP else archive)
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
            raise Refused(f"holds over {MAX_MEMBERS} members or {MAX_HEADERS} bytes of headers")
        path = _path(member.name)
        if member.type not in _PLAIN or member.issparse():
            kind = _KINDS.get(member.type, "a sparse file or something unknown")
            raise Refused(f"holds {path!r}, {kind}, and not just files and folders")
        if member.size < 0:
            raise Refused(f"is damaged: {path!r} has {member.size} bytes")
        stream.allowed = 0
        if member.isdir():
            if path:
                yield path, None, stream
        elif path:
            yield path, member.size, stream
        else:
            raise Refused(f"holds a file of the name {member.name!r}")
    # `tarfile` also ends where it meets what is no header, so that nothing would tell an archive
    # that was cut off there from a whole one.
    if len(stream.last) != 512 or any(stream.last):
        raise Refused("is cut off or damaged: its end is not marked")
    stream.allowed = MAX_TRAILER
    while stream.read(min(_CHUNK, stream.allowed or 1)):  # to its very end, for gzip's checksum
        pass


def _content(stream, size, path):
    while size:
        stream.allowed = _CHUNK
        data = stream.read(min(size, _CHUNK))
        if not data:
            raise Refused(f"is cut off inside of {path!r}")
        size -= len(data)
        yield data


def _path(name):
    """`name` as a relative path without "." parts, "" for the root."""
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
        raise Refused(f"holds {name[:200]!r}, {reason}")
    return "/".join(part for part in name.split("/") if part not in ("", "."))


class _Forward:
    """A file that is only read onwards and `allowed` bytes at most: a header may claim any size,
    and `tarfile` would read it all into memory or jump back."""

    def __init__(self, file):
        self._file, self._position = file, 0
        self.allowed, self.last = 0, b""

    def read(self, size):
        if not 0 <= size <= self.allowed:
            raise Refused(f"is damaged: it has a header or padding of over {self.allowed} bytes")
        self.last = self._file.read(size)
        self.allowed -= len(self.last)
        self._position += len(self.last)
        return self.last

    def seek(self, position):
        if position < self._position:
            raise Refused("is damaged: a header points back")
        while self._position < position:
            data = self._file.read(min(_CHUNK, position - self._position))
            if not data:
                raise Refused("is cut off inside of a file")
            self._position += len(data)

    def tell(self):
        return self._position


@contextlib.contextmanager
def _naming(name):
    """What a reader of a damaged archive raises becomes one line that names it."""
    try:
        yield
    except Refused as error:
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
