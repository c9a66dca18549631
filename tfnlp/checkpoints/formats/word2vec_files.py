"""Readers of word2vec's text and binary files and of GloVe's, compressed with gzip or not."""

from __future__ import annotations

import codecs
import collections
import contextlib
import gzip
import os
import re
import warnings
import zlib
from collections.abc import Iterator
from typing import IO

import numpy as np

from tfnlp.text.lines import shown

_MOST_EXPANSION = 1032  # bytes that gzip can compress to one
LONGEST_LINE = 1 << 26  # bytes
_BLOCK = 1 << 20
_MEASURED = 1000  # lines that tell how many numbers a word has
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
        self.rewind()

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def rewind(self) -> None:
        """Go back to the beginning, behind a byte-order mark."""
        self._file.seek(0)
        self._ahead, self._at = b"", 0  # bytes read, and how many of them were returned
        if self.peek(3) == codecs.BOM_UTF8:
            self._at = 3

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


def first_infinite(vectors: np.ndarray) -> int | None:
    """Return the first row that holds a number that is not finite, or None."""
    for first in range(0, len(vectors), 65536):  # by blocks of rows, to save memory
        finite = np.isfinite(vectors[first : first + 65536]).all(1)
        if not finite.all():
            return first + int(np.flatnonzero(~finite)[0])
    return None


class Words:
    """The words of a file with their vectors, float32 `[V, D]`, as they are read.

    A word that comes again and one that is not UTF-8 are left out, with a warning of how many.
    """

    def __init__(self, path: str, count: int, size: int) -> None:
        self.path, self.places = path, {}  # of the words: where they stand
        self.vectors = np.empty([count, size], np.float32)
        self._left_out: dict[str, tuple[int, str]] = {}  # by reason how many, and the first one

    def add(self, word: bytes, values: np.ndarray, place: str) -> None:
        """Add the word that stands at a place of the file."""
        try:
            name = word.decode("utf-8")
        except UnicodeDecodeError:
            name, reason = word.decode("utf-8", "replace"), "are not UTF-8"
        else:
            reason = "are there before" if name in self.places else None
        if reason is not None:
            count, first = self._left_out.get(reason, (0, f"{shown(name)}, {place}"))
            self._left_out[reason] = count + 1, first
            return
        self.vectors[len(self.places)] = values
        self.places[name] = place

    def table(self) -> WordTable:
        """Return what was read; ValueError if a number is not finite, or no word is left."""
        for reason, (count, first) in self._left_out.items():
            if not self.places:
                raise ValueError(f"{self.path}: all {count:,} words {reason}; convert the file")
            left_out = f"left out words that {reason}: {count:,}, the first {first}"
            warnings.warn(f"{self.path}: {left_out}", stacklevel=4)
        words, vectors = list(self.places), self.vectors[: len(self.places)]
        row = first_infinite(vectors)
        if row is not None:
            place = self.places[words[row]]
            raise ValueError(f"{self.path}, {place} holds a number that is not finite")
        return words, vectors


def read_text(source: ByteSource, limit: int | None = None) -> WordTable:
    """Read lines of text, with or without a header; see `read_word_vectors`."""
    path, header = source.path, header_sizes(source.until(b"\n"))
    if header:
        count, size = _possible(source, header, 2)
    else:
        source.rewind()
        count, size = _measure(source, limit)
    first = 2 if header else 1
    most = count if limit is None else min(count, limit)
    words, row = Words(path, most, size), -1
    with warnings.catch_warnings():
        # numpy warns of a line that is not numbers only.
        warnings.simplefilter("error", DeprecationWarning)
        for row, line in enumerate(source.lines()):
            number = row + first
            if row == most < count:
                break
            if not line.strip():
                if row < count:
                    raise ValueError(
                        f"{path}, line {number} is empty; expected a word and {size} numbers"
                    )
                row -= 1
                continue
            if row == count:
                raise ValueError(
                    f"{path} has more than the {count} words that its first line states; line "
                    f"{number} is one too many"
                )
            words.add(*_row(path, number, line.rstrip(b"\r"), size), f"line {number}")
    if row + 1 < most:
        raise ValueError(
            f"{path} ends after {row + 1} of the {count} words that its first line states; "
            "fetch it again"
        )
    return words.table()


def _measure(source: ByteSource, limit: int | None) -> tuple[int, int]:
    """Return (V, D) of a file without a header, which is read once for that; V may be cut."""
    count = blank = 0
    sizes: collections.Counter[int] = collections.Counter()
    for line in source.lines():
        if count < _MEASURED:
            sizes[_numbers_behind(line)] += 1
        blank = 0 if line.strip() else blank + 1
        count += 1
        if limit is not None and count > max(limit, _MEASURED):
            break
    source.rewind()
    # Words may be numbers and have spaces. Most lines are not so.
    size = max(sizes, key=lambda n: (sizes[n], -n))
    return count - blank, size  # without empty lines at the end


def _numbers_behind(line: bytes) -> int:
    """Return how many fields of a line are numbers, from its end to its second field."""
    found = 0
    with contextlib.suppress(ValueError):
        for field in reversed(line.split()[1:]):
            float(field)
            found += 1
    return found


def _row(path: str, number: int, line: bytes, size: int) -> tuple[bytes, np.ndarray]:
    word, _, numbers = line.replace(b"\t", b" ").partition(b" ")
    values = _numbers(numbers, size)
    if values is None:
        word, *fields = line.rstrip().rsplit(None, size)
        values = _numbers(b" ".join(fields), size)
    if values is None:  # nor is it a word with a space in it
        raise ValueError(
            f"{path}, line {number} has {len(line.split()) - 1} fields behind its word, "
            f"{shown(line[:200].decode(errors='replace'))}; expected {size} numbers"
        )
    if not word:
        raise ValueError(f"{path}, line {number} begins with a space; expected a word")
    return word, values


def _numbers(data: bytes, size: int) -> np.ndarray | None:
    """Return float32 for `size` numbers separated by spaces, or None for anything else."""
    try:
        values = np.fromstring(data, np.float32, sep=" ")
    except (ValueError, DeprecationWarning):
        return None
    return values if len(values) == size else None


def read_binary(source: ByteSource, limit: int | None = None) -> WordTable:
    """Read word2vec's binary file; see `read_word_vectors`."""
    path = source.path
    count, size = _possible(source, header_sizes(source.until(b"\n")), 4)
    most = count if limit is None else min(count, limit)
    words = Words(path, most, size)
    for row in range(most):
        if source.peek(1) == b"\n":  # of the vector before
            source.read(1)
        word = source.until(b" ", 1 << 16)
        data = b"" if word is None else source.read(4 * size)
        if len(data) < 4 * size:
            raise ValueError(
                f"{path} ends within word {row + 1} of the {count} that its first line states; "
                "fetch it again"
            )
        if not word:
            raise ValueError(f"{path}, word {row + 1} is empty")
        words.add(word, np.frombuffer(data, "<f4"), f"word {row + 1}")
    if most == count and source.read(2).strip():
        raise ValueError(
            f"{path} goes on behind the {count} words that its first line states; is it {size} "
            "numbers a word?"
        )
    return words.table()


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
