"""fastText's own model files, `.bin`: words, their counts, and the vectors of n-grams.

    int32 magic, version                            (files of before 2017 begin without)
    int32 dim ws epoch minCount neg wordNgrams loss model bucket minn maxn lrUpdateRate, double t
    int32 size nwords nlabels, int64 ntokens, int64 pruneidx_size           (old: no pruneidx_size)
    size times: word, NUL, int64 count, int8 type (0 word, 1 label)
    pruneidx_size times: int32, int32
    bool quantized                                                                     (old: none)
    int64 rows columns, float32 [rows, columns]: words, then buckets of n-grams

The output matrix, which follows in the same form, is not read. All numbers are little-endian. The
end of a sentence, `</s>`, has its own vector only, as in fastText now; in files without a magic
number it was averaged with n-grams.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator

import numpy as np

from tfnlp.checkpoints.formats.word2vec_files import ByteSource, first_infinite
from tfnlp.text.lines import shown
from tfnlp.text.subwords import Subwords
from tfnlp.text.word_vectors import WordVectors

_MAGIC = 793712314
_VERSIONS = (11, 12)
_ARGUMENTS = struct.Struct("<12i d")
_ANY = (-(1 << 31), 1 << 31)
_BOUNDS = (  # of the arguments: dim to t
    (1, 100_000), (0, 10_000), (0, 1_000_000), _ANY, (0, 100_000), (0, 1000), (1, 5), (1, 4),
    (0, 1 << 31), (0, 1000), (0, 1000), _ANY, (0, 1),
)  # fmt: skip
_SUPERVISED = 3
_BLOCK = 1 << 24  # numbers of a matrix read at once


def is_fasttext(head: bytes) -> bool:
    """Return whether a file that begins with the bytes `head` is such a model."""
    if len(head) < 8 + _ARGUMENTS.size:
        return False
    magic, version = struct.unpack_from("<2i", head)
    return magic == _MAGIC and 0 < version < 1000 or _are_arguments(head)


def _are_arguments(head: bytes) -> bool:
    """Return whether bytes can be the arguments of a file without a magic number."""
    bounds = zip(_ARGUMENTS.unpack_from(head), _BOUNDS, strict=True)
    return all(low <= value < high for value, (low, high) in bounds)


def read_fasttext(source: ByteSource) -> WordVectors:
    """Read the words and vectors of a file, without labels."""
    new = struct.unpack("<i", source.peek(4))[0] == _MAGIC
    version = _unpack(source, "<2i")[1] if new else None
    if new and version not in _VERSIONS:
        raise ValueError(f"{source.path} has fastText's version {version}; expected 11 or 12")
    arguments = _ARGUMENTS.unpack(_exactly(source, _ARGUMENTS.size))
    dim, model, bucket, min_n, max_n = (arguments[i] for i in (0, 7, 8, 9, 10))
    if version == 11 and model == _SUPERVISED:
        max_n = 0  # old models of this kind have no n-grams
    size, count, _, _ = _unpack(source, "<3i q")
    if new and _unpack(source, "<q")[0] > 0:
        raise ValueError(f"{source.path} is pruned; expected a whole model (.bin, not .ftz)")
    listed, counts = _words(source, size)
    if len(listed) != count:
        raise ValueError(f"{source.path} states {count} words, but lists {len(listed)}")
    if new and _unpack(source, "<?")[0]:
        raise ValueError(f"{source.path} is quantized; expected a whole model (.bin, not .ftz)")
    rows, columns = _unpack(source, "<2q")
    if columns != dim or rows not in (count, count + bucket):
        raise ValueError(
            f"{source.path} has a matrix of {rows} x {columns}; expected {count} words and "
            f"{bucket} n-grams of {dim} numbers"
        )
    if 4 * rows * columns > source.limit:
        raise ValueError(f"{source.path} ends before its vectors do; fetch it again")
    matrix = _matrix(source, rows, columns)
    row = first_infinite(matrix)
    if row is not None:
        of = f"the word {shown(listed[row])}" if row < count else f"n-gram {row - count}"
        raise ValueError(f"{source.path} holds a number that is not finite, of {of}")
    kept = [row for row, word in enumerate(listed) if word is not None]
    words, own, counts = [listed[row] for row in kept], matrix[kept], counts[kept]
    if len(words) < count:
        left_out = f"{count - len(words):,} words are not UTF-8; they are left out"
        warnings.warn(f"{source.path}: {left_out}", stacklevel=3)
    if not max_n or rows == count:
        return WordVectors(words, own, counts)
    subwords = Subwords(matrix[count:], min_n, max_n)
    with np.errstate(over="ignore"):
        vectors = subwords.vectors(words, own)
    row = first_infinite(vectors)
    if row is not None:
        raise ValueError(
            f"{source.path} has numbers so large that the vector of the word {shown(words[row])}, "
            "a mean of rows, is not finite; fetch it again"
        )
    return WordVectors(words, vectors, counts, subwords)


def fasttext_blocks(vectors: WordVectors) -> Iterator[bytes]:
    """Yield the bytes of a file of words and vectors; of the output matrix there are zeros.

    A word's own vector is what its n-grams leave of the mean.
    """
    own, dim = vectors.vectors, vectors.vectors.shape[1]
    table, min_n, max_n = np.zeros([0, dim], np.float32), 0, 0
    if vectors.subwords is not None:
        table, min_n, max_n = vectors.subwords.table, vectors.subwords.min_n, vectors.subwords.max_n
        _, splits = vectors.subwords.rows(vectors.words)
        counts = np.diff(splits)[:, np.newaxis]
        own = (counts + 1) * own.astype(np.float64) - counts * vectors.subwords.vectors(
            vectors.words
        )
    seen = np.ones(len(own), np.int64) if vectors.counts is None else vectors.counts
    yield struct.pack("<2i", _MAGIC, _VERSIONS[-1])
    yield _ARGUMENTS.pack(dim, 5, 5, 1, 5, 1, 2, 2, len(table), min_n, max_n, 100, 1e-4)
    yield struct.pack("<3i 2q", len(own), len(own), 0, int(np.sum(seen)), -1)
    for word, count in zip(vectors.words, seen, strict=True):
        yield word.encode() + b"\0" + struct.pack("<q b", int(count), 0)
    yield struct.pack("<? 2q", False, len(own) + len(table), dim)
    yield own.astype("<f4").tobytes()
    yield table.astype("<f4").tobytes()
    yield struct.pack("<? 2q", False, len(own), dim)
    yield bytes(4 * len(own) * dim)


def _words(source: ByteSource, size: int) -> tuple[list[str | None], np.ndarray]:
    """Return the words and their counts, None for one that is not UTF-8.

    Labels follow the words in the file.
    """
    words, counts = [], []
    for _ in range(size):
        word = source.until(b"\0", 1 << 20)
        seen, kind = _unpack(source, "<q b")
        if kind:
            continue
        try:
            words.append((word or b"").decode("utf-8"))
        except UnicodeDecodeError:
            words.append(None)
        counts.append(seen)
    return words, np.array(counts, np.int64)


def _matrix(source: ByteSource, rows: int, columns: int) -> np.ndarray:
    matrix = np.empty([rows * columns], np.float32)
    for part in np.split(matrix, range(_BLOCK, rows * columns, _BLOCK)):
        part[:] = np.frombuffer(_exactly(source, 4 * len(part)), "<f4")
    return matrix.reshape(rows, columns)


def _unpack(source: ByteSource, format: str) -> tuple:
    return struct.unpack(format, _exactly(source, struct.calcsize(format)))


def _exactly(source: ByteSource, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise ValueError(f"{source.path} ends too early for a fastText model; fetch it again")
    return data
