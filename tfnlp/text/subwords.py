"""Character n-grams of words as rows of a hashed table, as in fastText.

Bojanowski et al. 2017, section 3.2: a word w is read as `<w>`, and its n-grams are all sequences of
min_n to max_n characters of that; a word of few enough characters is itself among them. Rows are
shared by hashing: FNV-1a of 32 bits over the UTF-8 bytes, modulo the number of buckets. fastText
reads a byte as a signed number, so those from 128 on set the upper 24 bits, too.

    h = 2166136261; for each byte b: h = (h xor signed(b)) * 16777619 mod 2^32; row = h mod buckets

A character begins at every byte that does not continue one in UTF-8. The n-grams `<` and `>` of
one character are left out, and the end of a sentence, `</s>`, has none.

No string is sliced: the hashes of all n-grams grow by one character at a time, in TensorFlow ops.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

END = "</s>"  # of a sentence: a word without n-grams
_OFFSET, _PRIME, _MASK = 2166136261, 16777619, 0xFFFFFFFF
_SIGN = 0xFFFFFF00  # the upper bits of a byte from 128 on, read as a signed number
_WIDTH = 4  # bytes of a character at most; of what is not UTF-8, only these count
_CHUNK = 1 << 14  # words whose n-grams are held at once


@dataclasses.dataclass(frozen=True, eq=False)
class Subwords:
    """Vectors of character n-grams, from which every word gets a vector.

    Attributes:
        table: float32 [buckets, D].
        min_n, max_n: characters of the shortest and the longest n-grams, `<` and `>` counted.

    Raises:
        ValueError: an empty table, or not 1 <= min_n <= max_n.
    """

    table: np.ndarray
    min_n: int = 3
    max_n: int = 6

    def __post_init__(self) -> None:
        check_sizes(self.min_n, self.max_n, len(self.table))

    @property
    def buckets(self) -> int:
        """Number of rows of the table."""
        return len(self.table)

    def rows(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the words' n-grams, see `subword_rows`."""
        return subword_rows(words, self.min_n, self.max_n, self.buckets)

    def vectors(self, words: Sequence[str], own: np.ndarray | None = None) -> np.ndarray:
        """Return means of the n-grams' vectors, float32 [W, D]; zeros for a word that has none.

        Args:
            words: any.
            own: float32 [W, D], a further vector of each word for its mean.
        """
        found = np.zeros([len(words), self.table.shape[1]], np.float32)
        for first in range(0, len(words), _CHUNK):
            part = slice(first, first + _CHUNK)
            rows, splits = self.rows(words[part])
            counts = np.diff(splits)
            some = np.flatnonzero(counts)
            if len(some):
                sums = np.add.reduceat(self.table[rows], splits[some], axis=0)
                found[part][some] = sums
            if own is not None:
                found[part] += own[part]
                counts = counts + 1
            found[part] /= np.maximum(counts, 1)[:, np.newaxis].astype(np.float32)
        return found


def check_sizes(min_n: int, max_n: int, buckets: int) -> None:
    """Raise ValueError if the sizes of n-grams or the number of buckets are out of range."""
    if not 1 <= min_n <= max_n:
        raise ValueError(f"min_n={min_n} and max_n={max_n} must be 1 <= min_n <= max_n")
    if not 1 <= buckets < 2**32:
        raise ValueError(f"buckets={buckets} must lie in [1, 2^32)")


def subword_rows(
    words: Sequence[str], min_n: int = 3, max_n: int = 6, buckets: int = 2_000_000
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the n-grams of words, by first character, then shorter ones first.

    An n-gram that occurs twice in a word is listed twice, as in fastText.

    Returns:
        `(rows, splits)`: int64 [M] in [0, buckets), and int64 [W + 1]; those of word w are
        `rows[splits[w] : splits[w + 1]]`.

    Raises:
        ValueError: see `check_sizes`.
    """
    check_sizes(min_n, max_n, buckets)
    rows, counts = [np.zeros(0, np.int64)], [np.zeros(1, np.int64)]
    for first in range(0, len(words), _CHUNK):
        part = list(words[first : first + _CHUNK])
        found, owner = subword_rows_in_graph(tf.constant(part), min_n, max_n, buckets)
        rows.append(found.numpy())
        counts.append(np.bincount(owner.numpy(), minlength=len(part)))
    return np.concatenate(rows), np.cumsum(np.concatenate(counts))


def subword_rows_in_graph(
    words: tf.Tensor, min_n: int = 3, max_n: int = 6, buckets: int = 2_000_000
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return `subword_rows` of strings [W], computed in the TensorFlow graph.

    Returns:
        `(rows, owner)`: int64 [M] in [0, buckets) in the same order, and int64 [M], the
        ascending numbers of the words that they belong to.

    Raises:
        ValueError: see `check_sizes`.
    """
    check_sizes(min_n, max_n, buckets)
    marked = tf.where(words == END, "", tf.strings.join(["<", words, ">"]))
    lengths = tf.strings.length(marked)  # in bytes
    data = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(marked), tf.uint8), tf.int64)  # [bytes]
    owner = tf.repeat(tf.range(tf.size(words, tf.int64)), lengths)
    starts = tf.where((data & 0xC0) != 0x80)[:, 0]  # [C], of the characters
    total = tf.size(data, tf.int64)
    widths = tf.concat([starts[1:], total[tf.newaxis]], 0)[: tf.size(starts)] - starts
    owner = tf.gather(owner, starts)
    data = tf.where(data < 128, data, data + _SIGN)
    data = tf.pad(data, [[0, _WIDTH]])
    count = tf.size(starts, tf.int64)
    places = tf.range(count)
    value = tf.fill([count], tf.constant(_OFFSET, tf.int64))
    hashes, real = [], []  # [C] of each length
    for n in range(1, max_n + 1):
        last = tf.minimum(places + n - 1, count - 1)
        start, width = tf.gather(starts, last), tf.gather(widths, last)
        for k in range(_WIDTH):
            grown = ((value ^ tf.gather(data, start + k)) * _PRIME) & _MASK
            value = tf.where(k < width, grown, value)
        within = (places + n <= count) & (tf.gather(owner, last) == owner)
        if n == 1:
            changes = owner[1:] != owner[:-1]
            some = tf.ones_like(places[:1], tf.bool)  # none where there are no characters
            first, final = tf.concat([some, changes], 0), tf.concat([changes, some], 0)
            within &= ~(first | final)
        if n >= min_n:
            hashes.append(value % buckets)
            real.append(within)
    real = tf.stack(real, axis=1)  # [C, lengths]
    found = tf.where(real)  # [M, 2]
    return tf.gather_nd(tf.stack(hashes, axis=1), found), tf.gather(owner, found[:, 0])
