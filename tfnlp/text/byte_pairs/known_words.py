"""A table of words with their ids, looked up in the TensorFlow graph by the words' bytes.

A word of up to `8 n - 1` bytes is packed into n 64-bit numbers, its length in the last byte, so
that equal words have equal numbers. No string tensors are made.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from tfnlp.text.byte_pairs.static_table import StaticTable

_BLOCK = 8  # bytes in a 64-bit number
_FACTORS = tuple(
    int(np.uint64(x).astype(np.int64))
    for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class KnownWords:
    """Table of words, packed by `pack_words` (eager tensors `[n]`), and their ids, int32 `[n]`."""

    def __init__(self, packed: Sequence[tf.Tensor], ids: np.ndarray) -> None:
        self._table = StaticTable(_hash(packed).numpy())
        numbers = np.full([len(packed), self._table.size], -1)
        numbers[:, self._table.slots] = packed
        values = np.zeros(self._table.size, np.int32)
        values[self._table.slots] = ids
        self._numbers, self._ids = [tf.constant(n) for n in numbers], tf.constant(values)

    def find(self, packed: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Return which packed words `[W]` are known, bool, and the ids int32 of those that are."""
        slots = self._table.find(_hash(packed))
        known = _equal([tf.gather(number, slots) for number in self._numbers], packed)
        return known, tf.gather(self._ids, slots)


def longest_packed(count: int) -> int:
    """Return the bytes of the longest word that fits into `count` numbers."""
    return count * _BLOCK - 1


def pack_words(
    data: tf.Tensor, starts: tf.Tensor, lengths: tf.Tensor, count: int
) -> list[tf.Tensor]:
    """Return the words of uint8 `[N]` that begin at int32 `[W]` as `count` numbers, int64 `[W]`.

    The numbers of a word that is too long differ from those of every word that fits.
    """
    padded = tf.pad(data, [[0, -tf.size(data) % _BLOCK + (count + 1) * _BLOCK]])
    blocks = tf.bitcast(tf.reshape(padded, [-1, _BLOCK]), tf.uint64)
    block = tf.bitwise.right_shift(starts, 3)
    shift = tf.cast(tf.bitwise.bitwise_and(starts, 7) * 8, tf.uint64)
    rest = 63 - shift  # one less, and once more below: a shift by 64 is not defined
    size = tf.minimum(lengths, longest_packed(count) + 1)
    pieces = [tf.gather(blocks, block + i if i else block) for i in range(count + 1)]
    packed = []
    for i, masks in enumerate(_masks(count)):
        high = tf.bitwise.left_shift(pieces[i + 1], rest)
        number = tf.bitwise.right_shift(pieces[i], shift) | (high + high)
        packed.append(number & tf.gather(tf.constant(masks), size))
    sizes = np.arange(longest_packed(count) + 2, dtype=np.uint64) << np.uint64(56)
    packed[-1] |= tf.gather(tf.constant(sizes), size)
    return [tf.bitcast(number, tf.int64) for number in packed]


def _masks(count: int) -> Iterator[np.ndarray]:
    """Yield for each number the bits of it that a word fills, by the word's length."""
    for i in range(count):
        size = _BLOCK - (i == count - 1)
        filled = [min(max(n - i * _BLOCK, 0), size) for n in range(longest_packed(count) + 2)]
        yield np.array([(1 << 8 * n) - 1 for n in filled], np.uint64)


def distinct_words(packed: Sequence[tf.Tensor], lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the class of equal words that each packed word is in `[M]`, and one of each `[U]`.

    Words are compared by hash. A word whose hash equals that of another word, or that is too long
    to be compared, is a class of its own.
    """
    every = tf.range(tf.size(lengths))
    _, of = tf.unique(_hash(packed))
    kinds = tf.reduce_max(tf.concat([of, [-1]], 0)) + 1
    chosen = tf.math.unsorted_segment_min(every, of, kinds)
    first = tf.gather(chosen, of)
    same = _equal([tf.gather(number, first) for number in packed], packed)
    same &= (lengths <= longest_packed(len(packed))) | (every == first)
    of = tf.where(same, of, kinds - 1 + tf.cumsum(tf.cast(~same, tf.int32)))
    return of, tf.concat([chosen, tf.boolean_mask(every, ~same)], 0)


def _hash(packed: Sequence[tf.Tensor]) -> tf.Tensor:
    return sum(number * factor for number, factor in zip(packed, _FACTORS, strict=False))


def _equal(packed: Sequence[tf.Tensor], others: Sequence[tf.Tensor]) -> tf.Tensor:
    first, *rest = (a == b for a, b in zip(packed, others, strict=True))
    for equal in rest:
        first &= equal
    return first
