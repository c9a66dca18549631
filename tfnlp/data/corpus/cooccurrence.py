"""How often words stand near each other, counted in bounded memory.

Pennington, Socher & Manning 2014 (GloVe), section 3: two words d places apart add 1/d.
"""

import contextlib
import dataclasses
import hashlib
import os
import tempfile
from collections.abc import Iterator

import numpy as np

from tfnlp.data.corpus.arrays import ArrayFolder, Stored, chunks
from tfnlp.data.corpus.cache import cache_folder, cached, digest, disk_errors
from tfnlp.data.corpus.word_corpus import WordCorpus
from tfnlp.files import written_whole
from tfnlp.locks import locked

PART = 1 << 22  # pairs that are sorted at once: about 150 MB
_LARGE = 1 << 20  # words of a text whose cells are kept; those of a smaller one take seconds
_ONE = 1 << 32  # the share of neighbours: sums of whole numbers are the same in any order
_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)  # odd, with bits in no order


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
        parts: str | None = None,
        part: int = PART,
    ) -> "Cooccurrences":
        """Count the pairs of a corpus: in parts that are sorted and written, then merged.

        Args:
            corpus: the text.
            window: the largest distance of two words.
            symmetric: whether j may stand on either side of i; else only before it.
            folder: write the cells to files there, and map these; None: keep them in memory, or in
                temporary files if they are many.
            parts: an existing folder in which parts that an earlier call wrote are used; its
                files are deleted at the end. None: a temporary one.
            part: pairs of a part; the result does not depend on it.

        Raises:
            ValueError: no pairs.
            OSError: parts that can't be written.
        """
        found = ArrayFolder(folder)
        with disk_errors(cache_folder()), tempfile.TemporaryDirectory(dir=cache_folder()) as own:
            paths = _write_parts(corpus, window, symmetric, parts or own, part)
            for keys, sums in _merged(paths, max(1, part // max(1, len(paths)))):
                pairs = _unmixed(keys)
                rows, columns = np.divmod(pairs, len(corpus.words))
                found.append("rows", rows, np.int32)
                found.append("columns", columns, np.int32)
                found.append("values", sums / _ONE, np.float32)
            for path in paths:
                os.remove(path)
        cells = found.finish()
        if not cells:
            raise ValueError(
                "no sentence of the text has two words of the vocabulary; give more text"
            )
        return cls(**cells)

    def at_least(self, value: float) -> "Cooccurrences":
        """Return the cells with this value or more, in memory."""
        kept = np.flatnonzero(self.values >= value)
        return Cooccurrences(self.rows[kept], self.columns[kept], self.values[kept])


def counted_once(corpus: WordCorpus, window: int, symmetric: bool) -> Cooccurrences:
    """Return the cells of a corpus; those of a large one are kept in the cache.

    A call that was stopped left its parts there, and the next one counts the others.
    """
    if corpus.num_words < _LARGE:
        return Cooccurrences.count(corpus, window, symmetric)
    content = hashlib.sha256()
    for array in (corpus.ids, corpus.sentence_starts):
        for values in chunks(array):
            content.update(np.ascontiguousarray(values).data)
    key = digest("cooccurrences", content.hexdigest(), len(corpus.words), window, symmetric)
    parts = os.path.join(cache_folder(), f"parts-{key}")

    def build(folder: str) -> None:
        try:
            with locked(parts):
                Cooccurrences.count(corpus, window, symmetric, folder, parts)
            with contextlib.suppress(OSError):  # gone already, or in use again
                os.rmdir(parts)
        except BlockingIOError:  # another process counts the same
            Cooccurrences.count(corpus, window, symmetric, folder)

    return cached(key, build, Cooccurrences.read)


def _write_parts(
    corpus: WordCorpus, window: int, symmetric: bool, folder: str, part: int
) -> list[str]:
    """Write the pairs of one stretch of the text after the other; return the paths of the files.

    A file has hashes of pairs, rising, and then their sums, both int64. One that is there already
    was written whole by a call with the same text and arguments.
    """
    paths, size = [], max(1, part // (window * (1 + symmetric)))
    for first in range(0, corpus.num_words, size):
        path = os.path.join(folder, f"part-{first}-{size}")
        if not os.path.exists(path):
            keys, sums = _count_part(corpus, first, first + size, window, symmetric)
            with written_whole(path) as partial:
                np.concatenate([keys.view(np.int64), sums]).tofile(partial)
        paths.append(path)
    return paths


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


def _merged(paths: list[str], block: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the keys of all files, rising, with their sums; of each file `block` keys at a time."""
    places = dict.fromkeys(paths, 0)
    sizes = {path: os.path.getsize(path) // 16 for path in paths}
    waiting = {path: (np.zeros(0, np.uint64), np.zeros(0, np.int64)) for path in paths}
    while waiting:
        for path in paths:
            if path in waiting and not len(waiting[path][0]):
                if places[path] == sizes[path]:
                    del waiting[path]
                    continue
                count = min(block, sizes[path] - places[path])
                keys = np.fromfile(path, np.uint64, count, offset=8 * places[path])
                values = np.fromfile(path, np.int64, count, offset=8 * (sizes[path] + places[path]))
                waiting[path], places[path] = (keys, values), places[path] + count
        if not waiting:
            return
        # What follows in a file is larger than what was read of it.
        limit = min(keys[-1] for keys, _ in waiting.values())
        taken = []
        for path, (keys, values) in waiting.items():
            end = int(np.searchsorted(keys, limit, "right"))
            taken.append((keys[:end], values[:end]))
            waiting[path] = keys[end:], values[end:]
        keys, values = (np.concatenate(part) for part in zip(*taken, strict=True))
        order = np.argsort(keys, kind="stable")
        yield _summed(keys[order], values[order])


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
