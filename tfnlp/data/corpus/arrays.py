"""Arrays that grow at their end, in memory or in files, and arrays too large for memory."""

import contextlib
import json
import os
import tempfile
import zlib
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Self

import numpy as np

from tfnlp.data.corpus.cache import cache_folder, disk_errors
from tfnlp.data.corpus.sentences import Continued

CHUNK = 1 << 20  # numbers that are handled at once
_IN_MEMORY = 32 << 20  # bytes; larger scratch arrays are in temporary files
_META = "arrays.json"
_STARTS = ("sentence_starts", "document_starts")


class GrowingArray:
    """An array that grows at its end: in an open binary file, else in memory while it is small."""

    def __init__(self, dtype: Any, file: BinaryIO | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._row: tuple[int, ...] = ()
        self._chunks: list[np.ndarray] = []
        self._file = file

    def append(self, values: np.ndarray) -> None:
        """Append an array `[n, ...]`; all must have the same shape but for n."""
        values = np.ascontiguousarray(values, self.dtype)
        self._row = values.shape[1:]
        self.length += len(values)
        if self._file is not None:
            self._file.write(values.data)
            return
        self._chunks.append(values)
        if self.length * self.dtype.itemsize * max(1, int(np.prod(self._row))) > _IN_MEMORY:
            self._file = tempfile.TemporaryFile(dir=cache_folder())
            for chunk in self._chunks:
                self._file.write(chunk.data)
            self._chunks = []

    def finish(self) -> np.ndarray:
        """Return the array; nothing can be appended any more."""
        if self._file is None:
            return np.concatenate(self._chunks or [np.zeros([0, *self._row], self.dtype)])
        self._file.flush()
        return _mapped(self._file, self.dtype, (self.length, *self._row), "r")


class ArrayFolder:
    """Named arrays of one dimension that grow, as files of an existing folder or in memory.

    The folder has a file `NAME.bin` for each array and `arrays.json`, which is written last: dtypes
    and lengths, and what else describes the arrays.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._arrays: dict[str, GrowingArray] = {}
        self._files = contextlib.ExitStack()

    def append(self, name: str, values: Any, dtype: Any) -> None:
        """Append values to an array; `dtype` is the array's."""
        if name not in self._arrays:
            file = None
            if self._folder is not None:
                path = os.path.join(self._folder, f"{name}.bin")
                file = self._files.enter_context(open(path, "wb+"))
            self._arrays[name] = GrowingArray(dtype, file)
        self._arrays[name].append(np.asarray(values))

    def finish(self, **more: Any) -> dict[str, Any]:
        """Return the arrays by name, with `more`, which is written beside them."""
        if self._folder is None:
            return {**{name: grown.finish() for name, grown in self._arrays.items()}, **more}
        self._files.close()
        arrays = {n: [a.dtype.name, a.length] for n, a in self._arrays.items()}
        with open(os.path.join(self._folder, _META), "w", encoding="utf-8") as file:
            json.dump({"arrays": arrays, "more": more}, file)
        return read_arrays(self._folder)


class GrowingWords:
    """Numbers of words, with the starts of sentences and documents, as arrays that grow.

    `words` and `sentences` were appended; sentences without words do not count.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.words = self.sentences = 0
        self._arrays = ArrayFolder(folder)
        self._new = True  # whether the next sentence begins a document
        self._waiting = {"ids": array("i"), **{name: array("q") for name in _STARTS}}

    def start(self, document: list) -> None:
        """Begin a document, or go on with the last one."""
        self._new |= not isinstance(document, Continued)

    def append(self, ids: Iterable[int]) -> int:
        """Append a sentence; return its number of words."""
        waiting, before = self._waiting["ids"], len(self._waiting["ids"])
        waiting.extend(ids)
        count = len(waiting) - before
        if count:
            self._waiting["sentence_starts"].append(self.words)
            if self._new:
                self._waiting["document_starts"].append(self.sentences)
            self._new = False
            self.words, self.sentences = self.words + count, self.sentences + 1
            if len(waiting) > CHUNK:
                self._flush()
        return count

    def finish(self, **more: Any) -> dict[str, Any]:
        """Return `ids`, `sentence_starts`, `document_starts` and `more`, see `ArrayFolder`."""
        self._waiting["sentence_starts"].append(self.words)
        self._waiting["document_starts"].append(self.sentences)
        self._flush()
        return self._arrays.finish(**more)

    def _flush(self) -> None:
        for name, values in self._waiting.items():
            dtype = np.int32 if name == "ids" else np.int64
            self._arrays.append(name, np.array(values, dtype), dtype)
            self._waiting[name] = array(values.typecode)


def read_arrays(folder: str) -> dict[str, Any]:
    """Return what an `ArrayFolder` wrote; the arrays are mapped, not read."""
    with open(os.path.join(folder, _META), encoding="utf-8") as file:
        described = json.load(file)
    found = {}
    for name, (dtype, length) in described["arrays"].items():
        path = os.path.join(folder, f"{name}.bin")
        if os.path.getsize(path) != length * np.dtype(dtype).itemsize:
            raise OSError(f"{path} has {os.path.getsize(path)} bytes; delete {folder}")
        with open(path, "rb") as file:
            found[name] = _mapped(file, np.dtype(dtype), (length,), "r")
    return {**found, **described["more"]}


class Stored:
    """Base of records whose fields an `ArrayFolder` wrote."""

    @classmethod
    def read(cls, folder: str) -> Self:
        """Return what `build` or `count` wrote to a folder; an OSError for a damaged file."""
        return cls(**read_arrays(folder))


class StoredSentences(Stored):
    """Base of corpora: documents of sentences, which begin at `sentence_starts` and so on."""

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_starts) - 1

    @property
    def num_documents(self) -> int:
        return len(self.document_starts) - 1


def scratch(shape: Any, dtype: Any) -> np.ndarray:
    """Return a new array: in memory if it is small, else in a file that vanishes with it."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    dtype = np.dtype(dtype)
    if int(np.prod(shape)) * dtype.itemsize <= _IN_MEMORY:
        return np.empty(shape, dtype)
    folder = cache_folder()
    with disk_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
        size = int(np.prod(shape)) * dtype.itemsize
        file.truncate(size)
        if hasattr(os, "posix_fallocate"):
            # Without the space, writing to the mapping would end the process.
            os.posix_fallocate(file.fileno(), 0, size)
        return _mapped(file, dtype, shape, "r+")


def chunks(array: np.ndarray, size: int = CHUNK) -> Iterator[np.ndarray]:
    """Yield an array in parts of `size` rows."""
    for start in range(0, len(array), size):
        yield array[start : start + size]


def ranges(array: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the parts of an array from `starts` [N] on with `lengths` [N], joined."""
    before = np.cumsum(lengths) - lengths
    return array[np.repeat(starts - before, lengths) + np.arange(lengths.sum())]


def int32_checksum(array: np.ndarray) -> int:
    """Return the CRC-32 of the values as int32."""
    found = 0
    for part in chunks(array):
        found = zlib.crc32(np.ascontiguousarray(part, np.int32), found)
    return found


def count_ids(ids: np.ndarray, size: int = 0) -> np.ndarray:
    """Return how often each id occurs, int64 [`size` or more]."""
    counts = np.zeros(size, np.int64)
    for part in chunks(ids):
        found = np.bincount(part, minlength=len(counts))
        found[: len(counts)] += counts
        counts = found.astype(np.int64, copy=False)
    return counts


def _mapped(file: BinaryIO, dtype: np.dtype, shape: tuple[int, ...], mode: str) -> np.ndarray:
    """Return the array in a file; the mapping outlives the open file."""
    if not int(np.prod(shape)):
        return np.zeros(shape, dtype)  # an empty file can't be mapped
    # A plain view: numpy is slower, or copies, for its subclass memmap.
    return np.memmap(file, dtype, mode, shape=shape).view(np.ndarray)
