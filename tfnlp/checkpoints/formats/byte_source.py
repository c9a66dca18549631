"""A file that is read ahead, compressed with gzip or not."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from typing import IO

_MOST_EXPANSION = 1032  # bytes that gzip can compress to one
LONGEST_LINE = 1 << 26  # bytes
_BLOCK = 1 << 20


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
