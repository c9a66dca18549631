"""How often words stand near each other, counted in bounded memory, and batches of the counts.

Pennington, Socher & Manning 2014 (GloVe), section 3: two words d places apart add 1/d.
"""

import dataclasses
import functools
import hashlib
import os
import tempfile
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import ArrayFolder, Stored, chunks
from tfnlp.data.corpus.cache import cache_folder, cached, digest, disk_errors
from tfnlp.data.corpus.corpora import WordCorpus
from tfnlp.data.numbered import StackedBatches

PART = 1 << 22  # pairs that are sorted at once: about 150 MB
_LARGE = 1 << 20  # words of a text whose cells are kept; those of a smaller one take seconds
_ONE = 1 << 32  # the share of neighbours: sums of whole numbers are the same in any order
_SHARES = 1 << 10  # of the hashes, at most; pairs of one are sorted at once
_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)  # odd, with bits in no order

_CHUNK = 1 << 16  # cells that are read and shuffled together


@dataclasses.dataclass(frozen=True, eq=False)
class Cooccurrences(Stored):
    """The cells of the matrix X that are above 0, in an order without a pattern.

    `X_ij = sum over the places of i and of j within the window of i of 1 / their distance`.
    Windows end at the ends of sentences. The order is that of a hash of (i, j), so that cells which
    follow each other have little to do with each other.

    Attributes:
        rows: int32 [C], i.
        columns: int32 [C], j.
        values: float32 [C], X_ij.
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    @classmethod
    def count(
        cls,
        corpus: WordCorpus,
        window: int = 10,
        symmetric: bool = True,
        folder: str | None = None,
        part: int = PART,
    ) -> "Cooccurrences":
        """Count the pairs of a corpus, in parts of it, then those of a share of their hashes.

        Args:
            corpus: the text.
            window: the largest distance of two words.
            symmetric: whether j may stand on either side of i; else only before it.
            folder: write the cells to files there, and map these; None: keep them in memory, or in
                temporary files if they are many.
            part: pairs of a part; the result does not depend on it.

        Raises:
            ValueError: no pairs.
            OSError: parts that can't be written.
        """
        found = ArrayFolder(folder)
        with disk_errors(cache_folder()), tempfile.TemporaryDirectory(dir=cache_folder()) as shares:
            for keys, sums in _counted(corpus, window, symmetric, shares, part):
                rows, columns = np.divmod(_unmixed(keys), len(corpus.words))
                found.append("rows", rows, np.int32)
                found.append("columns", columns, np.int32)
                found.append("values", sums / _ONE, np.float32)
        cells = found.finish()
        if not len(cells["rows"]):
            raise ValueError(
                "no sentence of the text has two words of the vocabulary; give more text"
            )
        return cls(**cells)

    def at_least(self, value: float) -> "Cooccurrences":
        """Return the cells with this value or more, in memory."""
        kept = np.flatnonzero(self.values >= value)
        return Cooccurrences(self.rows[kept], self.columns[kept], self.values[kept])


def counted_once(corpus: WordCorpus, window: int, symmetric: bool) -> Cooccurrences:
    """Return the cells of a corpus; those of a large one are kept in the cache."""
    if corpus.num_words < _LARGE:
        return Cooccurrences.count(corpus, window, symmetric)
    content = hashlib.sha256()
    for array in (corpus.ids, corpus.sentence_starts):
        for values in chunks(array):
            content.update(np.ascontiguousarray(values).data)
    key = digest("cooccurrences", content.hexdigest(), len(corpus.words), window, symmetric)
    return cached(
        key,
        lambda folder: Cooccurrences.count(corpus, window, symmetric, folder),
        Cooccurrences.read,
    )


def _counted(
    corpus: WordCorpus, window: int, symmetric: bool, folder: str, part: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the hashes of all pairs, rising, with their sums, int64: a share of them at a time."""
    firsts = range(0, corpus.num_words, max(1, part // (window * (1 + symmetric))))
    count = min(len(firsts), _SHARES)
    paths = [os.path.join(folder, f"share-{number}") for number in range(count)]
    limits = np.arange(1, count, dtype=np.uint64) * np.uint64(2**64 // max(2, count))
    for first in firsts:
        keys, sums = _count_part(corpus, first, first + firsts.step, window, symmetric)
        rows = np.stack([keys.view(np.int64), sums], 1)
        for path, share in zip(paths, np.split(rows, np.searchsorted(keys, limits)), strict=True):
            with open(path, "ab") as file:
                share.tofile(file)
    for path in paths:
        rows = np.fromfile(path, np.int64).reshape(-1, 2)
        keys = rows[:, 0].view(np.uint64)
        order = np.argsort(keys, kind="stable")
        yield _summed(keys[order], rows[order, 1])


def _count_part(
    corpus: WordCorpus, first: int, last: int, window: int, symmetric: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return hashes and sums of the pairs whose second word is one of `first` to `last - 1`."""
    last, size = min(last, corpus.num_words), len(corpus.words)
    begin = max(0, first - window)
    ids = corpus.ids[begin:last].astype(np.int64)
    places = np.arange(first, last)
    starts = corpus.sentence_starts
    behind = places - starts[np.searchsorted(starts, places, "right") - 1]  # words before, [n]
    codes = []
    for distance in range(1, window + 1):
        here = places[behind >= distance] - begin
        word, before = ids[here], ids[here - distance]
        codes.append((word * size + before) * window + distance - 1)
        if symmetric:
            codes.append((before * size + word) * window + distance - 1)
    # One sort for pairs and their distances is several times faster than an order of pairs.
    codes = np.sort(np.concatenate(codes))
    pairs, distances = np.divmod(codes, window)
    shares = np.rint(_ONE / np.arange(1, window + 1)).astype(np.int64)[distances]
    pairs, sums = _summed(pairs, shares)
    keys = _mixed(pairs)
    order = np.argsort(keys)
    return keys[order], sums[order]


def _summed(keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each of the sorted keys once, with the sum of its values."""
    if not len(keys):
        return keys, values
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(values, starts)


def _mixed(pairs: np.ndarray) -> np.ndarray:
    """Return a number below 2^64 for each pair, another for another pair, without a pattern."""
    x = pairs.astype(np.uint64)
    for factor in _MIX:
        x = (x ^ (x >> np.uint64(32))) * np.uint64(factor)
    return x ^ (x >> np.uint64(32))


def _unmixed(keys: np.ndarray) -> np.ndarray:
    """Return the pairs of what `_mixed` made of them, int64."""
    x = keys
    for factor in reversed(_MIX):
        x = (x ^ (x >> np.uint64(32))) * np.uint64(pow(factor, -1, 1 << 64))
    return (x ^ (x >> np.uint64(32))).astype(np.int64)


class CooccurrenceBatches(StackedBatches):
    """Batches of cells `X_ij`, a pure function of (cells, seed, step).

    Each epoch has all C cells once: chunks of 65,536 stored cells in an order drawn with (seed,
    epoch), and the cells of a chunk in an order drawn with (seed, epoch, chunk), so that a matrix
    larger than memory is read from the disk in pieces. A batch is a dict with B = batch_size:

        input_word_ids  int32   [B]  i
        context_ids     int32   [B]  j
        counts          float32 [B]  X_ij; 0 for padding at the end of an evaluation

    Args:
        cells: the matrix.
        batch_size: B, over all devices.
        scale: what the X_ij are multiplied by.
        seed: int in [0, 2^63).
    """

    _at_once = 8

    def __init__(
        self, cells: Cooccurrences, *, batch_size: int, scale: float = 1.0, seed: int = 0
    ) -> None:
        self.cells, self.batch_size, self.scale, self.seed = cells, batch_size, scale, seed
        self.num_cells = len(cells.rows)
        self._order = functools.lru_cache(maxsize=2)(self._draw)
        self._shuffled = functools.lru_cache(maxsize=4)(self._read)

    @property
    def steps_per_epoch(self) -> float:
        return self.num_cells / self.batch_size

    def evaluation_batches(self, count: int | None = None) -> tf.data.Dataset:
        """Return every cell once, in the stored order, or `count` batches; the last is padded."""
        return self._evaluated(-(-self.num_cells // self.batch_size), count)

    def _batches(self, first: int, count: int) -> dict[str, np.ndarray]:
        place, last = first * self.batch_size, (first + count) * self.batch_size
        pieces = []
        while place < last:
            epoch, within = divmod(place, self.num_cells)
            chunks, ends = self._order(epoch)
            number = int(np.searchsorted(ends, within, "right"))
            chunk = self._shuffled(epoch, int(chunks[number]))
            left = int(ends[number]) - within  # of the chunk
            end = chunk.shape[1] - left
            piece = chunk[:, end : end + last - place]
            pieces.append(piece)
            place += piece.shape[1]
        found = np.concatenate(pieces, 1).reshape(3, count, self.batch_size)
        return self._named(*found)

    def _evaluation_batch(self, number: int) -> dict[str, np.ndarray]:
        found = self._stored(number * self.batch_size, self.batch_size)
        return self._named(*np.pad(found, [(0, 0), (0, self.batch_size - found.shape[1])]))

    def _draw(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the chunks in the order of an epoch, and where each ends, in cells."""
        chunks = self._generator(epoch, 0).permutation(-(-self.num_cells // _CHUNK))
        sizes = np.minimum(_CHUNK, self.num_cells - chunks * _CHUNK)
        return chunks, np.cumsum(sizes)

    def _read(self, epoch: int, chunk: int) -> np.ndarray:
        """Return the cells of a chunk in the order that they have in an epoch, `[3, n]`."""
        found = self._stored(chunk * _CHUNK, _CHUNK)
        return found[:, self._generator(epoch, chunk + 1).permutation(found.shape[1])]

    def _generator(self, epoch: int, number: int) -> np.random.Generator:
        counter = number << 128  # far from the numbers of other chunks
        return np.random.Generator(np.random.Philox(key=[self.seed, epoch], counter=counter))

    def _stored(self, first: int, count: int) -> np.ndarray:
        """Return stored cells as the bits of i, j and X_ij, int32 `[3, up to count]`."""
        cells, part = self.cells, slice(first, first + count)
        values = (cells.values[part] * np.float32(self.scale)).astype(np.float32)
        return np.stack([cells.rows[part], cells.columns[part], values.view(np.int32)])

    def _named(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> dict:
        counts = values.view(np.float32)
        return {"input_word_ids": rows, "context_ids": columns, "counts": counts}
