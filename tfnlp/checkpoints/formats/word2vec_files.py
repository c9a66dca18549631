"""Readers of word2vec's text and binary files and of GloVe's, compressed with gzip or not."""

from __future__ import annotations

import gzip
import os
import re
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import IO

import numpy as np

from tfnlp.text.lines import shown

_MOST_EXPANSION = 1032  # bytes that gzip can compress to one
LONGEST_LINE = 1 << 26  # bytes
_BLOCK = 1 << 20
_HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,12})\s*")
WordTable = tuple[list[str], np.ndarray]  # words, and vectors float32 [V, D]


class ByteSource:
    """A file, decompressed if it was compressed with gzip, that can be read ahead of its position.

    Attributes:
        path: path of the file.
        limit: upper limit of the bytes that it can hold.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = os.fspath(path)
        if not os.path.isfile(self.path):
            problem = "is a folder" if os.path.isdir(self.path) else "does not exist"
            raise FileNotFoundError(f"file of word vectors {self.path} {problem}")
        self._file: IO[bytes] = open(self.path, "rb")
        self.limit = os.path.getsize(self.path)
        packed = self._file.read(2) == b"\x1f\x8b"
        self._file.seek(0)
        if packed:
            self._file, self.limit = gzip.GzipFile(fileobj=self._file), self.limit * _MOST_EXPANSION
        self._ahead, self._at = b"", 0  # bytes read, and how many of them were returned

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def rewind(self) -> None:
        """Go back to the beginning."""
        self._file.seek(0)
        self._ahead, self._at = b"", 0

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end, without moving on."""
        while len(self._ahead) - self._at < size and self._fill(size):
            pass
        return self._ahead[self._at : self._at + size]

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer at the end."""
        data = self.peek(size)
        self._at += len(data)
        return data

    def until(self, mark: bytes, longest: int = LONGEST_LINE) -> bytes | None:
        """Return the bytes before the next `mark`, one byte, and move behind it.

        That is the rest of the file if there is no `mark`, and None at the end of the file. A
        search ends after about `longest` bytes.
        """
        searched = 0
        while (place := self._ahead.find(mark, self._at + searched)) < 0:
            searched = len(self._ahead) - self._at
            if searched > longest or not self._fill(_BLOCK):
                return self.read(searched) or None
        data, self._at = self._ahead[self._at : place], place + 1
        return data

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that are left, without their ends."""
        while (line := self.until(b"\n")) is not None:
            if len(line) > LONGEST_LINE:
                raise ValueError(f"{self.path} has a line of more than {LONGEST_LINE} bytes")
            yield line

    def _fill(self, size: int) -> bool:
        """Read ahead; return whether there were more bytes."""
        try:
            more = self._file.read(max(_BLOCK, size))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.path} is damaged: {error}; fetch it again") from error
        self._ahead, self._at = self._ahead[self._at :] + more, 0
        return bool(more)


def header_sizes(line: bytes) -> tuple[int, int] | None:
    """Return (V, D) if a file's first line states them, else None."""
    match = _HEADER.fullmatch(line)
    return (int(match[1]), int(match[2])) if match else None


def read_text(source: ByteSource) -> WordTable:
    """Read lines of text, with or without a header; see `read_word_vectors`."""
    path, header = source.path, header_sizes(source.until(b"\n"))
    source.rewind()
    first = 1
    if header:
        count, size = _possible(source, header, 2)
        source.until(b"\n")
        first = 2
    else:
        count, size = _measure(source)
    words, vectors = {}, np.empty([count, size], np.float32)
    with warnings.catch_warnings():
        # numpy warns of a line that is not numbers only.
        warnings.simplefilter("error", DeprecationWarning)
        for number, line in enumerate(source.lines(), start=first):
            row = number - first
            if not line.strip():
                if row < count:
                    raise ValueError(
                        f"{path}, line {number} is empty; expected a word and {size} numbers"
                    )
                continue
            if row == count:
                raise ValueError(
                    f"{path} has more than the {count} words that its first line states; line "
                    f"{number} is one too many"
                )
            word, values = _row(path, number, line.rstrip(b"\r"), size)
            if words.setdefault(word, row) != row:
                raise ValueError(
                    f"{path} has the word {shown(word)} twice, in lines {words[word] + first} and "
                    f"{number}; remove one"
                )
            vectors[row] = values
    if len(words) < count:
        raise ValueError(
            f"{path} ends after {len(words)} of the {count} words that its first line states; "
            "fetch it again"
        )
    _check_finite(path, vectors, lambda row: f"line {row + first}")
    return list(words), vectors


def _measure(source: ByteSource) -> tuple[int, int]:
    """Return (V, D) of a file without a header, which is read once for that."""
    line = source.until(b"\n")
    size = len(line.split()) - 1
    source.rewind()
    count = blank = 0
    for line in source.lines():
        blank = 0 if line.strip() else blank + 1
        count += 1
    source.rewind()
    return count - blank, size  # without empty lines at the end


def _row(path: str, number: int, line: bytes, size: int) -> tuple[str, np.ndarray]:
    word, _, numbers = line.partition(b" ")
    values = _numbers(numbers)
    if values is None or len(values) != size:
        fields = line.rstrip().rsplit(None, size)
        values = _numbers(b" ".join(fields[1:])) if len(fields) > size else None
        if values is None or len(values) != size:  # nor is it a word with a space in it
            raise ValueError(
                f"{path}, line {number} has {len(line.split()) - 1} fields behind its word, "
                f"{shown(line[:200].decode(errors='replace'))}; expected {size} numbers"
            )
        word = fields[0]
    if not word:
        raise ValueError(f"{path}, line {number} begins with a space; expected a word")
    return _decoded(word, f"{path}, line {number}"), values


def _numbers(data: bytes) -> np.ndarray | None:
    """Return float32 for numbers separated by spaces, or None if there is anything else."""
    try:
        return np.fromstring(data, np.float32, sep=" ")
    except (ValueError, DeprecationWarning):
        return None


def read_binary(source: ByteSource) -> WordTable:
    """Read word2vec's binary file; see `read_word_vectors`."""
    path = source.path
    count, size = _possible(source, header_sizes(source.until(b"\n")), 4)
    words, vectors = {}, np.empty([count, size], np.float32)
    for row in range(count):
        if source.peek(1) == b"\n":  # of the vector before
            source.read(1)
        word = source.until(b" ", 1 << 16)
        data = b"" if word is None else source.read(4 * size)
        if len(data) < 4 * size:
            raise ValueError(
                f"{path} ends within word {row + 1} of the {count} that its first line states; "
                "fetch it again"
            )
        word = _decoded(word, f"{path}, word {row + 1}")
        if not word:
            raise ValueError(f"{path}, word {row + 1} is empty")
        if words.setdefault(word, row) != row:
            raise ValueError(
                f"{path} has the word {shown(word)} twice, as words {words[word] + 1} and {row + 1}"
            )
        vectors[row] = np.frombuffer(data, "<f4")
    if source.read(2).strip():
        raise ValueError(
            f"{path} goes on behind the {count} words that its first line states; is it {size} "
            "numbers a word?"
        )
    _check_finite(path, vectors, lambda row: f"word {row + 1}")
    return list(words), vectors


def _possible(source: ByteSource, header: tuple[int, int], bytes_a_number: int) -> tuple[int, int]:
    """Return (V, D) if the file can hold as many numbers, else raise ValueError."""
    count, size = header
    if not (count and size):
        raise ValueError(
            f"{source.path}, line 1 states {count} words of {size} numbers; expected 1 or more"
        )
    if count * size * bytes_a_number > source.limit:
        raise ValueError(
            f"{source.path}, line 1 states {count} words of {size} numbers, more than the file has "
            "room for; is it cut off?"
        )
    return count, size


def _decoded(word: bytes, where: str) -> str:
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where} has the word {shown(word[:50])}, which is not UTF-8; convert the file"
        ) from error


def _check_finite(path: str, vectors: np.ndarray, where: Callable[[int], str]) -> None:
    """Raise ValueError for a number that is not finite; by blocks of rows, to save memory."""
    for first in range(0, len(vectors), 65536):
        finite = np.isfinite(vectors[first : first + 65536]).all(1)
        if not finite.all():
            row = first + int(np.flatnonzero(~finite)[0])
            raise ValueError(f"{path}, {where(row)} holds a number that is not finite")
