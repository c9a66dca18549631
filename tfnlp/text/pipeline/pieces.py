"""Look-up in tables of the graph: of numbers, and of pieces of texts by a hash of them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2 ** 64
_INVERSE = pow(_BASE, -1, 1 << 64)
_LONGEST = 512  # characters of a word whose number no other word has
_BLOCK, _BLOCKS = 8, 3  # bytes in a number, numbers of a word
_LENGTH, *_FACTORS = (
    int(np.uint64(x).astype(np.int64))
    for x in (0x94D049BB133111EB, 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0xD6E8FEB86659FD93)
)
_MIXERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD)


def _signed(number: int) -> int:
    return int(np.uint64(number).astype(np.int64))


class StaticTable:
    """Values of distinct int64 `keys` `[n]`, looked up in the graph by gathers alone.

    Row displacement: each hash has a row and a column; every row is shifted by a distance of its
    own so that no two hashes get the same slot: `slot = (shift[row] + column) mod slots`. A look-up
    is four gathers, which use all cores, while TensorFlow's hash tables look up one key at a time.
    """

    def __init__(self, keys: np.ndarray, values: np.ndarray) -> None:
        bits = max(4, int(2 * max(1, len(keys)) - 1).bit_length())
        self._size = 1 << bits  # at least twice as many slots as keys
        for mixer in _MIXERS:
            self._mixer = _signed(mixer)
            self._row_shift, self._row_mask = 64 - bits, (1 << (bits - 1)) - 1
            self._column_shift = 64 - 2 * bits
            with np.errstate(over="ignore"):
                mixed = keys * np.int64(self._mixer)
            rows = (mixed >> self._row_shift) & self._row_mask
            columns = (mixed >> self._column_shift) & (self._size - 1)
            shifts = _displace(rows, columns, self._row_mask + 1, self._size)
            if shifts is not None:
                break
        else:
            raise ValueError(f"no table found for {len(keys)} keys; remove equal ones")
        slots = (shifts[rows] + columns) & (self._size - 1)
        # A key that has another slot, so that none is found in an empty one.
        stored = np.full(self._size, keys[0] if len(keys) else -1)
        of_slots = np.zeros(self._size, values.dtype)
        stored[slots], of_slots[slots] = keys, values
        self._shifts, self._keys = tf.constant(shifts), tf.constant(stored)
        self._values = tf.constant(of_slots)

    def find(self, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return whether int64 keys of any shape are known, and the values of those that are."""
        mixed = keys * self._mixer
        rows = tf.bitwise.right_shift(mixed, self._row_shift) & self._row_mask
        columns = tf.bitwise.right_shift(mixed, self._column_shift)
        slots = (tf.gather(self._shifts, rows) + columns) & (self._size - 1)
        return tf.gather(self._keys, slots) == keys, tf.gather(self._values, slots)


def _displace(
    rows: np.ndarray, columns: np.ndarray, num_rows: int, num_slots: int
) -> np.ndarray | None:
    """Return a shift for each row, int64 `[num_rows]`, or None if there are none that fit."""
    if len(np.unique(rows * num_slots + columns)) < len(rows):
        return None
    shifts = np.zeros(num_rows, np.int64)
    used = np.zeros(num_slots, bool)
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows, minlength=num_rows)
    begins = np.cumsum(counts) - counts
    tries = np.arange(num_slots)
    for row in np.argsort(-counts, kind="stable"):
        count = counts[row]
        if count < 2:
            break
        own = columns[order[begins[row] : begins[row] + count]]
        for first in range(0, num_slots, 64):
            places = (tries[first : first + 64, None] + own) & (num_slots - 1)
            fits = np.flatnonzero(~used[places].any(1))
            if len(fits):
                shifts[row] = first + fits[0]
                used[places[fits[0]]] = True
                break
        else:
            return None
    single = np.flatnonzero(counts == 1)
    free = np.flatnonzero(~used)[: len(single)]
    shifts[single] = (free - columns[order[begins[single]]]) & (num_slots - 1)
    return shifts


class Hashes(NamedTuple):
    """Sums of hashes, from which those of all pieces follow.

    `hash(c) = sum_j (c_j + 1) B^j  (mod 2^64)`; that of the characters from i to k is
    `(sums[k] - sums[i]) inverses[i]`. Pieces of up to several hundred characters that have the
    same number are not known.
    """

    sums: tf.Tensor  # int64 [N + 1], of the characters before each
    inverses: tf.Tensor  # int64 [N + 1], powers of the inverse of B

    def of(self, starts: tf.Tensor, stops: tf.Tensor) -> tf.Tensor:
        """Return the hashes of the characters from `starts` to `stops`, of one shape."""
        found = tf.gather(self.sums, stops) - tf.gather(self.sums, starts)
        return found * tf.gather(self.inverses, starts)


def prefix_hashes(chars: tf.Tensor) -> Hashes:
    """Return the hashes of int32 `[N]`."""
    size = tf.size(chars)
    sums = tf.cumsum((tf.cast(chars, tf.int64) + 1) * _powers(_BASE, size))
    return Hashes(tf.concat([[0], sums], 0), _powers(_INVERSE, size + 1))


def _powers(base: int, size: tf.Tensor) -> tf.Tensor:
    """Return the first powers of a number modulo 2 ** 64, int64 `[size]`, in rows of 256."""
    row = tf.constant([_signed(pow(base, i, 1 << 64)) for i in range(256)], tf.int64)
    step = tf.constant(_signed(pow(base, 256, 1 << 64)), tf.int64)
    rows = tf.math.cumprod(tf.fill([size // 256 + 1], step), exclusive=True)
    return tf.reshape(rows[:, None] * row, [-1])[:size]


class Pieces:
    """Table of distinct strings to numbers of at least 0.

    `lengths` are 1 and the other lengths that occur, the longest first.
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
        values = np.array(list(numbers.values()), np.int32)
        self.find = StaticTable(keys.astype(np.int64), values).find

    def hashes(self, chars: tf.Tensor, starts: tf.Tensor, stops: tf.Tensor) -> tf.Tensor:
        """Return the hashes of words, int64 `[W]`."""
        hashes = prefix_hashes(chars).of(starts, stops)
        return tf.where(stops - starts > _LONGEST, -2 - starts, hashes)

    def all_from(
        self, hashes: Hashes, places: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return which of `lengths` have a piece from places `[P]` on, `[P, L]`, and its number."""
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


class ByteWords:
    """Table of words of at most 24 bytes, which are hashed eight bytes at a time."""

    def __init__(self, numbers: Mapping[bytes, int]) -> None:
        kept = {word: number for word, number in numbers.items() if len(word) <= _BLOCK * _BLOCKS}
        lengths = tf.constant([len(word) for word in kept], tf.int64)
        ends = tf.cumsum(lengths)
        data = tf.constant(np.frombuffer(b"".join(kept), np.uint8))
        keys = self.hashes(data, ends - lengths, ends).numpy()
        self.find = StaticTable(keys, np.array(list(kept.values()), np.int32)).find

    def hashes(self, data: tf.Tensor, starts: tf.Tensor, stops: tf.Tensor) -> tf.Tensor:
        """Return the hashes of words of bytes `[N]`, int64 `[W]`; a longer one equals no other."""
        padded = tf.pad(data, [[0, (_BLOCKS + 1) * _BLOCK - tf.size(data) % _BLOCK]])
        blocks = tf.bitcast(tf.reshape(padded, [-1, _BLOCK]), tf.uint64)
        filled = tf.constant([_signed((1 << 8 * i) - 1) for i in range(_BLOCK + 1)], tf.int64)

        def number(at: tf.Tensor, rest: tf.Tensor) -> tf.Tensor:
            """Return the next `rest` bytes, at most 8, as a number."""
            block = tf.bitwise.right_shift(at, 3)
            shift = tf.cast((at & 7) * 8, tf.uint64)
            low = tf.bitwise.right_shift(tf.gather(blocks, block), shift)
            # Twice, as a shift by 64 is not defined.
            high = tf.bitwise.left_shift(tf.gather(blocks, block + 1), 63 - shift)
            number = tf.bitcast(low | (high + high), tf.int64)
            return number & tf.gather(filled, tf.clip_by_value(rest, 0, _BLOCK))

        lengths = stops - starts
        hashes = number(starts, lengths) * _FACTORS[0] + lengths * _LENGTH
        long = tf.where(lengths > _BLOCK)[:, 0]
        at, rest = tf.gather(starts, long), tf.gather(lengths, long)
        more = [number(at + i * _BLOCK, rest - i * _BLOCK) * _FACTORS[i] for i in range(1, _BLOCKS)]
        hashes = tf.tensor_scatter_nd_add(hashes, long[:, None], sum(more))
        return tf.where(lengths > _BLOCKS * _BLOCK, -2 - starts, hashes)
