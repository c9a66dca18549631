"""Texts, and text files with one entry per line: reading, checks, entries in error messages."""

import os
import reprlib
from collections.abc import Iterable, Iterator, Sequence


def read_lines(path: str | os.PathLike, what: str) -> list[str]:
    """Return the lines of a UTF-8 file; either line ending and a byte order mark are accepted.

    Errors call the file `what`, such as "vocabulary file".
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


def checked_entries(
    entries: Sequence[str], source: str, what: str, needed: Sequence[str]
) -> list[str]:
    """Return the entries of a vocabulary, in the order of ids, each of them once and none empty.

    Errors name their `source` and call them `what`: "token" or "word". `needed` must be there.
    """
    if isinstance(entries, str | bytes):
        raise ValueError(f"{source} is a single string; expected a list of {what}s")
    if not len(entries):
        raise ValueError(f"{source} is empty; expected one {what} per line")
    seen = {}
    for index, entry in enumerate(entries):
        if not isinstance(entry, str) or not entry or "\n" in entry or "\r" in entry:
            raise ValueError(
                f"{source} has {shown(entry)} as {what} {index} (line {index + 1}); expected a "
                "non-empty string without line breaks"
            )
        if entry in seen:
            raise ValueError(
                f"{source} has the {what} {shown(entry)} twice, as {seen[entry]} and {index} "
                f"(lines {seen[entry] + 1} and {index + 1}); remove one"
            )
        seen[entry] = index
    missing = [entry for entry in needed if entry not in seen]
    if missing:
        raise ValueError(f"{source} lacks {', '.join(missing)}; it needs {', '.join(needed)}")
    return list(entries)


def checked_texts(texts: Iterable[str], name: str = "texts") -> Iterator[str]:
    """Yield texts, each of which must be a string."""
    if isinstance(texts, str | bytes):
        raise ValueError(f"{name} is a single string; pass a list of strings")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{name}[{number}] must be a string; got {text!r:.60}")
        yield text


def shown(entry: object) -> str:
    """Return an entry of a file, of any type, length and depth, shortened for a message."""
    return _REPR.repr(entry)


def shortened(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters: head and tail, with "…" for what is between.

    Line breaks become spaces.
    """
    text = " ".join(text.split()) or text
    if len(text) <= longest:
        return text
    tail = (longest - 1) // 2
    return f"{text[: longest - 1 - tail]}…{text[len(text) - tail :]}"


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 120
