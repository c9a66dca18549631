"""Words that are remembered with their ids: found in the TensorFlow graph by their bytes alone.

A word of up to `8 n - 1` bytes is packed into n 64-bit numbers, its length in the last byte, so
that equal words have equal numbers; no string is made on the way.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfnlp.text.static_table import StaticTable

_BLOCK = 8  # bytes in a 64-bit number
_FACTORS = tuple(
    int(np.uint64(x).astype(np.int64))
    for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class KnownWords:
    """Words and their ids.

    Args:
      packed: the words as `pack_words` gives them, eager tensors `[n]`.
      ids: int32 `[n]`.
    """

    def __init__(self, packed: Sequence[tf.Tensor], ids: np.ndarray):
        self._table = StaticTable(_hash(packed).numpy())
        numbers = np.full([len(packed), self._table.size], -1)
        numbers[:, self._table.slots] = packed
        values = np.zeros(self._table.size, np.int32)
        values[self._table.slots] = ids
        self._numbers, self._ids = [tf.constant(n) for n in numbers], tf.constant(values)

    def find(self, packed: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Whether packed words `[W]` are known, and the ids int32 `[W]` of those that are."""
        slots = self._table.find(_hash(packed))
        known = _equal([tf.gather(number, slots) for number in self._numbers], packed)
        return known, tf.gather(self._ids, slots)


def longest_packed(count: int) -> int:
    """Bytes of the longest word that fits into `count` numbers."""
    return count * _BLOCK - 1


def pack_words(
    data: tf.Tensor, starts: tf.Tensor, lengths: tf.Tensor, count: int
) -> list[tf.Tensor]:
    """The words of uint8 `[N]` that begin at int32 `[W]` as `count` numbers, int64 `[W]` each.

    Longer words than fit give numbers that those of no word that fits are equal to.
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


def _masks(count):
    """For each number, the bits of it that a word fills, by the word's length."""
    for i in range(count):
        room = _BLOCK - (i == count - 1)
        filled = [min(max(n - i * _BLOCK, 0), room) for n in range(longest_packed(count) + 2)]
        yield np.array([(1 << 8 * n) - 1 for n in filled], np.uint64)


def distinct_words(packed: Sequence[tf.Tensor], lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Which packed words are equal: the kind of each, `[M]`, and one word of each kind, `[U]`.

    By their hashes; a word whose hash is another's, or too long to be compared, is its own kind.
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


def _hash(packed):
    return sum(number * factor for number, factor in zip(packed, _FACTORS, strict=False))


def _equal(packed, others):
    first, *rest = (a == b for a, b in zip(packed, others, strict=True))
    for equal in rest:
        first &= equal
    return first
