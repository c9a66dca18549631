"""Files and folders that are written whole or not at all, on this machine or at `gs://...`.

Remote paths are those that have a scheme and that `tf.io.gfile` takes. TensorFlow is imported only
for them.
"""

import contextlib
import difflib
import errno
import os
import re
import shutil
import socket
import tempfile
import uuid
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

from tfnlp.optional_tensorflow import tf

# What `written_whole` has not finished, and folders that it replaces: machine, process, name.
_TEMPORARY = re.compile(r"\.(partial|replaced)-([0-9a-f]{8})-(\d{1,9})-[0-9a-f]{8}-(.+)", re.DOTALL)
_FULL = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)))


class WriteError(OSError):
    """A file or folder can't be written: the message says which, why, and what to do."""

    path: str = ""
    reason: str = ""


def write_error(path: str | os.PathLike[str], error: Exception, then: str = "") -> WriteError:
    """Return the error that says that `path`, or "standard output", can't be written.

    `error` is what Python, TensorFlow or another library raised; `then`, what to do after there is
    space, ends the message.
    """
    reason = _strerror(error) or first_line(error).rpartition("; ")[2]  # TensorFlow: PATH; cause
    advice = (
        "free some space or choose another place" if reason in _FULL else "choose another place"
    )
    found = WriteError(f"{os.fspath(path)} can't be written: {reason}; {advice}{then}")
    found.path, found.reason = os.fspath(path), reason
    return found


def is_full(error: Exception) -> bool:
    """Return whether the system said that the disk is full; a `WriteError` is no such error."""
    if not isinstance(error, OSError) or error.errno is None:
        return False
    return os.strerror(error.errno) in _FULL


@contextlib.contextmanager
def named_errors(path: str | os.PathLike[str], written: str) -> Iterator[None]:
    """Turn an error of writing `written`, such as a temporary file, into one that names `path`."""
    try:
        yield
    except Exception as error:
        if _is_of(error, written):
            raise write_error(path, error) from error
        raise


def check_space(path: str, size: int) -> None:
    """Write an empty file at `path` if there is space for `size` bytes."""
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        file.truncate(0)


def folder_size(folder: str | os.PathLike[str]) -> int:
    """Return the bytes of all files in a folder of this machine."""
    return sum(
        os.path.getsize(os.path.join(root, name))
        for root, _, names in os.walk(folder)
        for name in names
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; the name of its type if it has none."""
    text = str(getattr(error, "message", None) or error).strip()  # of TensorFlow's: `message`
    return text.split("\n")[0] or type(error).__name__


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` has a scheme (`gs://`, `s3://`, ...), so that `open` can't read it."""
    return "://" in os.fspath(path)


def joined(folder: str | os.PathLike[str], name: str) -> str:
    """Return the path of what is called `name` in a folder."""
    folder = os.fspath(folder)
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else os.path.join(folder, name)


def opened(path: str, mode: str = "r") -> IO[Any]:
    """Return a file that is open, text as UTF-8."""
    if is_remote(path):
        return tf.io.gfile.GFile(path, mode)
    return open(path, mode, encoding=None if "b" in mode else "utf-8")


def exists(path: str) -> bool:
    """Return whether there is a file or a folder."""
    return tf.io.gfile.exists(path) if is_remote(path) else os.path.exists(path)


def listed(folder: str) -> list[str]:
    """Return the names in a folder; none if it does not exist."""
    if is_remote(folder):
        found = tf.io.gfile.listdir(folder) if tf.io.gfile.exists(folder) else []
        return [name.rstrip("/") for name in found]
    return os.listdir(folder) if os.path.isdir(folder) else []


def make_folder(path: str) -> None:
    """Make a folder, and those that it is in, where they do not exist."""
    if not is_remote(path):
        os.makedirs(path, exist_ok=True)
        return
    try:
        tf.io.gfile.makedirs(path)
    except tf.errors.OpError as error:
        raise write_error(path, error) from error


def remove(path: str) -> None:
    """Delete a file, or a folder and what is in it; nothing if there is neither."""
    if not is_remote(path):
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.remove(path)
    elif tf.io.gfile.exists(path):
        (tf.io.gfile.rmtree if tf.io.gfile.isdir(path) else tf.io.gfile.remove)(path)


@contextlib.contextmanager
def reached(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what TensorFlow says of a file system into an `OSError` that names the remote `path`."""
    try:
        yield
    except Exception as error:
        if not hasattr(error, "error_code"):
            raise
        raise OSError(
            f"{os.fspath(path)} can't be reached: {first_line(error)}; check the name, your "
            "credentials and the network"
        ) from error


@contextlib.contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield a temporary path for the new file or folder `path`; move it there on success.

    The temporary path is beside `path` and has the same extension. When the block ends, the data is
    flushed to the disk and renamed. If the block raises, the temporary path is deleted, and what
    was at `path` before is unchanged. A remote file or folder is written on this machine and copied
    when the block ends.

    An existing file or folder at `path` is replaced: check before whether that is allowed. The
    parent folder must exist. What earlier processes of this machine left of `path` when they were
    killed is deleted.

    Raises:
        WriteError: if it can't be written, in the block or when it ends: the disk is full, say.
    """
    path = os.fspath(path)
    if is_remote(path):
        with tempfile.TemporaryDirectory() as folder:
            local = os.path.join(folder, os.path.basename(path.rstrip("/")))
            with named_errors(path, folder):
                yield local
            _upload(local, path.rstrip("/"))
        return
    folder, name = os.path.split(os.path.abspath(path))
    mark = f"{place()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    temporary = os.path.join(folder, f".partial-{mark}-{name}")
    _remove_left_over(folder, "partial", name)
    try:
        with named_errors(path, temporary):
            yield temporary
            _flush(temporary)
            if os.path.isdir(temporary) and os.path.isdir(path):
                _replace_folder(temporary, path, os.path.join(folder, f".replaced-{mark}-{name}"))
            else:
                os.replace(temporary, path)
        _remove_left_over(folder, "replaced", name)
    finally:
        _remove(temporary)


def name_when_whole(path: str) -> str:
    """Return the name of a path; of a temporary one of `written_whole` that which it will have."""
    name = os.path.basename(path)
    match = _TEMPORARY.fullmatch(name)
    return match[4] if match else name


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8, whole or not at all (see `written_whole`)."""
    with written_whole(path) as temporary:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            file.write(text)


def write_lines(path: str, lines: Iterable[Any]) -> None:
    """Write a file of one entry a line, whole or not at all."""
    with written_whole(path) as partial:
        with open(partial, "w", encoding="utf-8", newline="") as file:
            file.writelines(f"{line}\n" for line in lines)


def given_path(value: Any, argument: str) -> str:
    """Return a path that the user gave as `argument` as a string; ValueError for anything else."""
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"`{argument}` {value!r:.60} must be a path, not {type(value).__name__}")
    return os.fspath(value)


def near_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the path of a file or folder here with nearly the name of one that is not there."""
    folder, name = os.path.split(os.fspath(path).rstrip("/"))
    here = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    return [os.path.join(folder, one) for one in difflib.get_close_matches(name, here, 1)]


def no_file(path: str | os.PathLike[str]) -> FileNotFoundError:
    """Return the error of a file that is not there."""
    files = filter(os.path.isfile, near_names(path))  # not the run's folder, just made
    hint = "".join(f"; did you mean {near}?" for near in files)
    if " " in os.fspath(path) and not hint:
        hint = "; texts in memory are a list of them"
    return FileNotFoundError(f"no such file: {path}{hint}")


def same_folder(first: Any, second: Any) -> bool:
    """Return whether two paths name the same folder."""
    if not all(isinstance(path, str | os.PathLike) for path in (first, second)):
        return False
    return os.path.realpath(first) == os.path.realpath(second)


@contextlib.contextmanager
def local_copy(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield a path on this machine with the contents of the file or folder `path`.

    That is `path` itself if it is local, else a copy that is deleted when the block ends.

    Raises:
        OSError: if a remote `path` does not exist or can't be reached.
    """
    path = os.fspath(path)
    if not is_remote(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        local = os.path.join(folder, os.path.basename(path.rstrip("/")))
        with reached(path):
            if not tf.io.gfile.exists(path):
                raise FileNotFoundError(f"{path} does not exist")
            _copy(path, local)
        yield local


def place() -> str:
    """Return 8 hex digits for this machine and its process numbers; a container has its own."""
    numbers = "/proc/self/ns/pid"
    space = os.readlink(numbers) if os.path.islink(numbers) else ""
    return f"{zlib.crc32(f'{socket.gethostname()} {space}'.encode()):08x}"


def has_ended(pid: int) -> bool:
    """Return whether no process of this `place` has the number `pid`; False where in doubt."""
    if os.name == "nt":  # there `os.kill` ends a process
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # a process of another user
        pass
    return False


def _is_of(error: Exception, written: str) -> bool:
    """Return whether an error is one of writing at `written`."""
    if isinstance(error, WriteError):
        return error.path.startswith(written)
    if isinstance(error, OSError) and error.errno is not None:
        if error.filename is not None:
            return str(error.filename).startswith(written)
        return is_full(error)
    # TensorFlow, h5py and safetensors put the system's message in theirs.
    of_tensorflow = hasattr(error, "error_code") and written in str(error)
    return of_tensorflow or _strerror(error) is not None


def _strerror(error: Exception) -> str | None:
    """Return what the system said of a full disk, or of any `OSError`."""
    if isinstance(error, WriteError):
        return error.reason
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    return next((said for said in _FULL if said in str(error)), None)


def _flush(path: str) -> None:
    """Write what the system caches of a file, or of all files in a folder, to the disk."""
    if os.path.isdir(path):
        for name in os.listdir(path):
            _flush(os.path.join(path, name))
    else:
        with open(path, "rb+") as file:
            os.fsync(file.fileno())


def _replace_folder(new: str, old: str, aside: str) -> None:
    """Rename the folder `new` to `old`, which is kept as `aside` until that is done."""
    os.rename(old, aside)
    try:
        os.rename(new, old)
    except BaseException:
        os.rename(aside, old)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _remove_left_over(folder: str, kind: str, name: str) -> None:
    """Delete what killed processes of this machine left of the file or folder `name`."""
    if not os.path.isdir(folder):
        return
    for found in os.listdir(folder):
        match = _TEMPORARY.fullmatch(found)
        if match and (match[1], match[2], match[4]) == (kind, place(), name):
            if has_ended(int(match[3])):
                with contextlib.suppress(OSError):  # another process or user may have it
                    _remove(os.path.join(folder, found))


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.exists(path):
        os.remove(path)


def _upload(local: str, path: str) -> None:
    """Copy a file or folder of this machine to a remote path; delete what is incomplete."""
    try:
        if not os.path.isdir(local):
            # An object store shows a file only when all of it has arrived; others can rename.
            temporary = f"{path}.partial-{uuid.uuid4().hex[:8]}"
            try:
                tf.io.gfile.copy(local, temporary, overwrite=True)
                tf.io.gfile.rename(temporary, path, overwrite=True)
            finally:
                if tf.io.gfile.exists(temporary):
                    tf.io.gfile.remove(temporary)
            return
        if tf.io.gfile.exists(path):
            tf.io.gfile.rmtree(path)
        try:
            _copy(local, path)
        except BaseException:
            if tf.io.gfile.exists(path):
                tf.io.gfile.rmtree(path)
            raise
    except tf.errors.OpError as error:
        raise write_error(path, error) from error


def _copy(source: str, target: str) -> None:
    if not tf.io.gfile.isdir(source):
        tf.io.gfile.copy(source, target, overwrite=True)
        return
    tf.io.gfile.makedirs(target)
    for name in tf.io.gfile.listdir(source):
        name = name.rstrip("/")
        _copy(tf.io.gfile.join(source, name), tf.io.gfile.join(target, name))
