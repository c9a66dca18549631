"""Which sequences share a row of a fixed length, and where they are in it.

First fit, the longest first, among sequences that are near each other in the text (Krell et al.
2021, "Efficient sequence packing without cross-contamination", section 3).
"""

from typing import NamedTuple

import numpy as np

from tfnlp.data.corpus.arrays import ranges

NEAR = 1024  # sequences that rows are filled from at once


class Sequences(NamedTuple):
    """Parts of documents, each no longer than a row; all int64 `[N]`."""

    starts: np.ndarray  # in the text
    lengths: np.ndarray  # 1 or more
    known: np.ndarray  # how many places at the beginning are the end of the part before, too


def cut_documents(starts: np.ndarray, ends: np.ndarray, space: int, stride: int) -> Sequences:
    """Cut documents that are longer than a row, of `space` places, into parts `stride` apart."""
    sizes = ends - starts
    counts = 1 + np.maximum(0, -((space - sizes) // stride))
    document = np.repeat(np.arange(len(sizes)), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    lengths = np.minimum(sizes[document] - number * stride, space)
    known = np.where(number > 0, space - stride, 0)
    return Sequences(starts[document] + number * stride, lengths, known)


def first_fit(lengths: np.ndarray, space: int, near: int = NEAR) -> tuple[np.ndarray, np.ndarray]:
    """Put each sequence `[N]` into the first row with enough room, the longest of `near` first.

    Return the sequences in the order of their rows, int64 `[N]`, and where each row begins among
    these, int64 `[R + 1]`. `near` sequences share rows only with each other.
    """
    rows = np.empty(len(lengths), np.int64)
    first = 0
    for begin in range(0, len(lengths), near):
        part = lengths[begin : begin + near]
        room = np.full(len(part), space)  # of each row; there are as many as sequences at most
        opened = 0
        for index in np.argsort(-part, kind="stable").tolist():
            size = part[index]
            row = int((room[: opened + 1] >= size).argmax())
            opened = max(opened, row + 1)
            room[row] -= size
            rows[begin + index] = first + row
        first += opened
    order = np.argsort(rows, kind="stable")
    return order, np.searchsorted(rows[order], np.arange(first + 1))


class PackedRows:
    """R = `count` rows of T = `space` places with one sequence or several, at most `most`.

    Lengths of the sequences are int64 `[N]`, from 1 to T.
    """

    def __init__(self, lengths: np.ndarray, space: int) -> None:
        self._lengths, self._space = lengths, space
        self._order, self._starts = first_fit(lengths, space)
        self.count = len(self._starts) - 1
        self.most = int(np.diff(self._starts).max(initial=0))

    def members(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sequences of rows [B], those from R on are empty, and how many each has."""
        starts, ends = (self._starts[np.minimum(rows + n, self.count)] for n in (0, 1))
        return ranges(self._order, starts, ends - starts), ends - starts

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Return what is at the places of rows, int64 `[3, B, T]`, 0 at padding.

        That is the number of the sequence among all, the place in it, and the number in its row.
        """
        members, counts = self.members(rows)
        lengths = self._lengths[members]
        numbers = np.arange(len(members)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        used = np.bincount(np.repeat(np.arange(len(rows)), counts), lengths, len(rows))
        found = np.zeros((3, len(rows), self._space), np.int64)
        real = np.arange(self._space) < used[:, np.newaxis]  # [B, T]
        found[:, real] = np.repeat(members, lengths), within, np.repeat(numbers, lengths)
        return found
