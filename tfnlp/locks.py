"""A lock on an output folder, so that one process alone writes a run.

    RUN/.lock           locked by the process that writes RUN; says which one, where and since when
    RUN/.lock-1f2e3d4c  the same where files can't be locked, as at `gs://...`

The system drops a lock when its process ends, however that ends. Where files can't be locked, the
file itself is the claim of a process. That of a process of this machine that has ended is deleted;
of another machine's this can't be known, and the error says what to do.
"""

import contextlib
import datetime
import errno
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from typing import IO, Any

from tfnlp.files import has_ended, is_remote, place, reached, write_error
from tfnlp.optional_tensorflow import tf

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None

PREFIX = ".lock"  # of the names of these files
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextlib.contextmanager
def locked(directory: str | os.PathLike[str], argument: str = "output") -> Iterator[None]:
    """Keep other processes from writing to the folder `directory` inside the context.

    The folder is made. If it did not exist and is still empty at the end, it is removed again.
    Within one process contexts of the same folder, local or remote, may be nested. `argument` is
    the name of that which gave it, for the error.

    Raises:
        BlockingIOError: if another process writes to the folder; names it.
        OSError: if the folder can't be made or written to.
    """
    directory = os.fspath(directory)
    key = directory.rstrip("/") if is_remote(directory) else os.path.realpath(directory)
    if key not in _HELD:
        _HELD[key] = _Lock(directory, argument)
    lock = _HELD[key]
    lock.users += 1
    try:
        yield
    finally:
        lock.users -= 1
        if not lock.users and _HELD.get(key) is lock:
            del _HELD[key]
            lock.release()


class _Lock:
    """The lock of this process on one folder; see `locked`."""

    def __init__(self, directory: str, argument: str) -> None:
        self.shown, self.argument, self.users = directory, argument, 0
        self.directory = directory if is_remote(directory) else os.path.abspath(directory)
        self.path, self.made, self.file = "", [], None
        if is_remote(directory) or fcntl is None or not self._lock():
            with reached(directory):
                self._claim()

    def _lock(self) -> bool:
        """Lock the file `.lock`; return False where files can't be locked."""
        path = os.path.join(self.directory, PREFIX)
        for _ in range(100):
            self.made = self.made or _missing(self.directory)
            os.makedirs(self.directory, exist_ok=True)
            try:
                file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
            except FileNotFoundError:  # the process before this one has just removed the folder
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(path, file):
                    self.path, self.file = path, file
                    self._write()
                    return True
                # The process before this one has just removed the file that was opened.
            except BlockingIOError:
                raise self._in_use(_read_written(path)) from None
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
                return False
            finally:
                if self.file is None:
                    file.close()
        return False

    def _write(self) -> None:
        try:
            self.file.truncate(self.file.write(_record()))
            os.fsync(self.file)  # for readers on other machines
        except OSError as error:
            self.release()
            raise write_error(self.path, error) from error

    def _claim(self) -> None:
        """Write a file with a name of its own; check that no other process has one."""
        self.path = tf.io.gfile.join(self.directory, f"{PREFIX}-{uuid.uuid4().hex[:8]}")
        try:
            tf.io.gfile.makedirs(self.directory)
            with tf.io.gfile.GFile(self.path, "wb") as file:
                file.write(_record())
            # Looked for after writing: of two that start together, one at least sees the other.
            for name in tf.io.gfile.listdir(self.directory):
                path = tf.io.gfile.join(self.directory, name)
                if name.startswith(f"{PREFIX}-") and path != self.path:
                    self._check_claim(path)
        except BaseException as error:
            self.release()
            if isinstance(error, tf.errors.OpError):
                raise write_error(self.shown, error) from error
            raise

    def _check_claim(self, path: str) -> None:
        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                holder = _parsed(file.read())
            if not _has_ended(holder):
                raise self._in_use(holder, f"; if that has ended, delete {path}")
            tf.io.gfile.remove(path)
        except tf.errors.NotFoundError:
            pass  # the process has just ended

    def _in_use(self, holder: dict[str, Any], more: str = "") -> BlockingIOError:
        who = "another process"
        if holder:
            who = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        return BlockingIOError(
            f"`{self.argument}` {self.shown} is being written by {who}; wait for it or stop "
            f"it, or give another `{self.argument}`{more}"
        )

    def release(self) -> None:
        """Remove the file, and the folder if it was made for it and is empty."""
        if self.file is None:
            if tf.io.gfile.exists(self.path):
                tf.io.gfile.remove(self.path)
        else:
            with contextlib.suppress(FileNotFoundError):  # somebody deleted the folder
                os.remove(self.path)
            self.file.close()
        for folder in self.made:
            with contextlib.suppress(OSError):  # it is in use
                os.rmdir(folder)


_HELD: dict[str, _Lock] = {}


def _forget() -> None:
    """Leave the locks to the parent, in a child that it forked."""
    for lock in _HELD.values():
        if lock.file is not None:
            lock.file.close()
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _missing(directory: str) -> list[str]:
    """Return those of a folder and its parents that do not exist, the innermost first."""
    folder, found = os.path.abspath(directory), []
    while not os.path.exists(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def _is_at(path: str, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _record() -> bytes:
    now = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
    who = {"pid": os.getpid(), "host": socket.gethostname(), "since": now, "place": place()}
    return json.dumps(who).encode() + b"\n"


def _parsed(data: bytes) -> dict[str, Any]:
    """Return a record; {} if it is none."""
    try:
        found = json.loads(data)
        named = {name: str(found[name]) for name in ("host", "since", "place")}
        pid = int(found["pid"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {}
    return {"pid": pid, **named} if 0 < pid < 1 << 31 else {}


def _has_ended(holder: dict[str, Any]) -> bool:
    """Return whether a record is that of a process of this machine that has ended."""
    if not holder or holder["place"] != place():
        return False
    # This process has no such lock: one before it had the same number.
    return holder["pid"] == os.getpid() or has_ended(holder["pid"])


def _read_written(path: str) -> dict[str, Any]:
    """Return the record of a lock that another process has, or has just got."""
    for _ in range(20):
        try:
            with open(path, "rb") as file:
                holder = _parsed(file.read())
        except FileNotFoundError:
            return {}
        if holder and not _has_ended(holder):
            return holder
        time.sleep(0.05)  # it is still that of the process before, or being written
    return {}
