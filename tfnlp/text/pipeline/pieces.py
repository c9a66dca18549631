"""Look-up of pieces of texts by number: a hash of their characters."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfnlp.text.byte_pairs import StaticTable

_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2 ** 64
_INVERSE = pow(_BASE, -1, 1 << 64)


def _signed(number: int) -> int:
    return int(np.uint64(number).astype(np.int64))


class Hashes(NamedTuple):
    """Sums of hashes, from which those of all pieces follow.

    `hash(c) = sum_j (c_j + 1) B^j  (mod 2^64)`; that of the characters from i to k is
    `(sums[k] - sums[i]) inverses[i]`. Pieces of up to several hundred characters that have the
    same number are not known.

    Attributes:
        sums: int64 `[N + 1]`, of the characters before each.
        inverses: int64 `[N + 1]`, powers of the inverse of B.
    """

    sums: tf.Tensor
    inverses: tf.Tensor

    def of(self, starts: tf.Tensor, stops: tf.Tensor) -> tf.Tensor:
        """Return the hashes of the characters from `starts` to `stops`, of one shape."""
        found = tf.gather(self.sums, stops) - tf.gather(self.sums, starts)
        return found * tf.gather(self.inverses, starts)


def prefix_hashes(chars: tf.Tensor) -> Hashes:
    """Return the hashes of int32 `[N]`."""
    size = tf.size(chars)
    powers = tf.math.cumprod(tf.fill([size], tf.constant(_signed(_BASE), tf.int64)), exclusive=True)
    inverses = tf.math.cumprod(
        tf.fill([size + 1], tf.constant(_signed(_INVERSE), tf.int64)), exclusive=True
    )
    sums = tf.cumsum((tf.cast(chars, tf.int64) + 1) * powers)
    return Hashes(tf.concat([[0], sums], 0), inverses)


class Pieces:
    """Table of pieces.

    Args:
        numbers: distinct strings to numbers of at least 0.

    Attributes:
        lengths: 1 and the other lengths that occur, the longest first.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.lengths = sorted({1, *(len(piece) for piece in numbers)}, reverse=True)
        keys = np.zeros(len(numbers), np.uint64)
        by_length: dict[int, list[tuple[int, str]]] = {}
        for i, piece in enumerate(numbers):
            by_length.setdefault(len(piece), []).append((i, piece))
        with np.errstate(over="ignore"):
            for length, own in by_length.items():
                text = "".join(piece for _, piece in own).encode("utf-32-le", "surrogatepass")
                chars = np.frombuffer(text, "<u4").reshape(len(own), length).astype(np.uint64) + 1
                powers = np.array([pow(_BASE, j, 1 << 64) for j in range(length)], np.uint64)
                keys[[i for i, _ in own]] = (chars * powers).sum(1, dtype=np.uint64)
        signed = keys.astype(np.int64)
        self._table = StaticTable(signed)
        stored, values = np.full(self._table.size, -1), np.zeros(self._table.size, np.int32)
        stored[self._table.slots] = signed
        values[self._table.slots] = list(numbers.values())
        self._keys, self._values = tf.constant(stored), tf.constant(values)

    def find(self, hashes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return whether int64 hashes of any shape are known, and the numbers of those that are."""
        slots = self._table.find(hashes)
        return tf.gather(self._keys, slots) == hashes, tf.gather(self._values, slots)

    def all_from(
        self, hashes: Hashes, places: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Find the pieces of every length that begin at int64 places `[P]` before `ends` `[P]`.

        Returns:
            Whether there is one, bool `[P, L]`, and its number, in the order of `lengths`.
        """
        stops = places[:, None] + tf.constant(self.lengths, tf.int64)  # [P, L]
        inside = stops <= ends[:, None]
        sums = tf.gather(hashes.sums, tf.minimum(stops, ends[:, None]))
        sums -= tf.gather(hashes.sums, places)[:, None]
        known, numbers = self.find(sums * tf.gather(hashes.inverses, places)[:, None])
        return known & inside, numbers

    def longest(
        self, hashes: Hashes, places: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return whether a piece begins at places `[P]`, and the number of the longest."""
        known, numbers = self.all_from(hashes, places, ends)
        which = tf.argmax(tf.cast(known, tf.int8), 1)  # the first, which is the longest
        return tf.reduce_any(known, 1), tf.gather(numbers, which, batch_dims=1)
