"""Files of one entry a line, and what makes them unusable."""

import os
import reprlib


def read_lines(path: str | os.PathLike, what: str) -> list[str]:
    """The lines of a UTF-8 file, with either line ending, a byte order mark or none.

    Args:
      path: the file.
      what: what it is, for errors: "vocabulary file".

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file is binary or not UTF-8.
    """
    path = os.fspath(path)
    if not os.path.isfile(path):
        problem = "is a folder" if os.path.isdir(path) else "does not exist"
        raise FileNotFoundError(f"{what} {path} {problem}")
    with open(path, "rb") as file:
        data = file.read()
    if b"\0" in data:
        raise ValueError(f"{what} {path} is binary (NUL at byte {data.index(0)}); expected text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{what} {path} is not valid UTF-8 (byte {error.start}); save it as UTF-8"
        ) from error
    # Not splitlines(): that would also split at the Unicode line breaks some vocabularies hold.
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    return [] if lines == [""] else lines


def shown(entry) -> str:
    """An entry of a file for a message: it may be anything, of any length and depth."""
    return _REPR.repr(entry)


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 120
