"""Byte-pair encoding (Sennrich et al. 2016, algorithm 1 applied) as TensorFlow graph ops.

Of a word's adjacent pairs of symbols, all occurrences of the one that was learnt first are merged,
from left to right, until no pair left was learnt.  Here it is done to all words of a batch at once,
one merge each a step.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfnlp.text.static_table import StaticTable

_NONE = np.iinfo(np.int32).max  # rank of a pair that was not learnt
_PAIR = 1 << 31  # a pair as one number: left * _PAIR + right
_BLOCK = 8  # bytes in a 64-bit number
_MAX_KNOWN = 3 * _BLOCK - 1  # bytes of a word that is looked up; the last holds the length
_FACTORS = tuple(
    int(np.uint64(x).astype(np.int64))
    for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class BytePairs:
    """Words to token ids.

    Words that are a token are looked up; the others of a batch, each once, go through the merges.

    Args:
      tokens: token strings by id, None where an id has no token.
      merges: pairs of symbols in the order of their rank.
      first_symbols: function of the bytes of some words, uint8 `[n]`, and their lengths, int32
        `[w]`, that gives their symbols, int64, each word followed by `separator`.
      unknown: id for symbols that are no token; None makes them an error.
    """

    def __init__(self, tokens, merges, first_symbols, unknown=None):
        ids = {token: i for i, token in enumerate(tokens) if token is not None}
        ranks = {pair: rank for rank, pair in enumerate(merges)}  # the last one counts
        names = dict.fromkeys(ids)
        for left, right in merges:
            names.update({left: None, right: None, left + right: None})
        self.symbols = {name: i for i, name in enumerate(names)}
        self.unknown = len(self.symbols)
        self.separator = self.unknown + 1
        self._first_symbols = first_symbols
        self._complete = unknown is not None or all(name in ids for name in names)
        default = -1 if unknown is None else unknown
        self._ids = tf.constant(
            [*(ids.get(name, default) for name in self.symbols), default, default], tf.int32
        )
        keys = np.array(
            [self.symbols[left] * _PAIR + self.symbols[right] for left, right in ranks], np.int64
        )
        self._table = StaticTable(keys)
        slots = self._table.slots
        pairs, pair_ranks = np.full(self._table.size, -1), np.full(self._table.size, _NONE)
        pairs[slots], pair_ranks[slots] = keys, list(ranks.values())
        self._pairs = tf.constant(pairs, tf.int64)
        self._ranks = tf.constant(pair_ranks, tf.int32)
        self._results = tf.constant(
            [self.symbols[left + right] for left, right in merges] or [0], tf.int64
        )
        self._known = None

    def learn_words(self, words: Sequence[bytes], ids: Sequence[int]) -> None:
        """Remembers those of `words` that come out as the one token of `ids`."""
        lengths = np.array([len(word) for word in words], np.int32)
        ends = np.cumsum(lengths, dtype=np.int32)
        data = tf.constant(np.frombuffer(b"".join(words), np.uint8))
        encoded = self.encode(data, tf.constant(ends - lengths), tf.constant(ends), strict=False)
        single = encoded.row_lengths().numpy() == 1
        first = np.zeros(len(words), np.int64)
        first[single] = encoded[:, :1].flat_values.numpy()[
            np.cumsum(encoded.row_lengths().numpy() > 0)[single] - 1
        ]
        kept = np.flatnonzero(single & (first == ids) & (lengths <= _MAX_KNOWN))
        if not len(kept):
            return
        packed = _pack(data, tf.constant((ends - lengths)[kept]), tf.constant(lengths[kept]))
        table = StaticTable(_hash(packed).numpy())
        numbers = np.full([3, table.size], -1)
        numbers[:, table.slots] = packed
        values = np.zeros(table.size, np.int32)
        values[table.slots] = first[kept]
        self._known = table, [tf.constant(n) for n in numbers], tf.constant(values)

    def encode(self, data, starts, ends, strict=True) -> tf.RaggedTensor:
        """Ids of words, int32 ragged `[W, (tokens)]`.

        Args:
          data: uint8 `[N]`.
          starts, ends: int32 `[W]`, where in `data` each word begins and ends.
        """
        lengths = ends - starts
        packed = _pack(data, starts, lengths)
        short = lengths <= _MAX_KNOWN
        if self._known is None:
            known, ids = tf.zeros_like(short), tf.zeros_like(starts)
        else:
            table, words, values = self._known
            slots = table.find(_hash(packed))
            known = short & _equal([tf.gather(number, slots) for number in words], packed)
            ids = tf.gather(values, slots)
        missing = tf.where(~known & (lengths > 0))[:, 0]  # [M]
        of, chosen = _distinct(
            [tf.gather(number, missing) for number in packed], tf.gather(short, missing)
        )
        chosen = tf.gather(missing, chosen)  # [U]
        begin, length = tf.gather(starts, chosen), tf.gather(lengths, chosen)
        own = tf.gather(data, tf.ragged.range(begin, begin + length).flat_values)
        symbols = self.merge(self._first_symbols(own, length))
        limits = tf.where(symbols == self.separator)[:, 0]  # [U]
        firsts = tf.concat([[0], limits[:-1] + 1], 0)[: tf.size(limits)]
        merged = tf.gather(self._ids, symbols)
        if strict and not self._complete:
            absent = tf.boolean_mask(merged, symbols != self.separator) < 0
            check = tf.debugging.Assert(
                ~tf.reduce_any(absent), ["the text needs tokens that the vocabulary lacks"]
            )
            with tf.control_dependencies([check] if check is not None else []):
                merged = tf.identity(merged)
        # One list of candidates: the looked up ids, then the merged ones.
        count = tf.size(starts, tf.int64)
        source = tf.concat([ids, merged], 0)
        first = tf.tensor_scatter_nd_update(
            tf.range(count), missing[:, None], count + tf.gather(firsts, of)
        )
        number = tf.tensor_scatter_nd_update(
            tf.cast(known, tf.int64), missing[:, None], tf.gather(limits - firsts, of)
        )
        places = tf.ragged.range(first, first + number)
        return places.with_flat_values(tf.gather(source, places.flat_values))

    def merge(self, symbols: tf.Tensor) -> tf.Tensor:
        """Symbols int64 `[N]`, words apart by `separator`, to those that remain after merging."""
        separates = tf.cast(symbols == self.separator, tf.int64)
        words = tf.cumsum(separates, exclusive=True)
        free = tf.TensorShape([None])
        return tf.while_loop(
            lambda symbols, words, more: more,
            self._merge_once,
            (symbols, words, tf.size(symbols) > 0),
            shape_invariants=(free, free, tf.TensorShape([])),
        )[0]

    def _merge_once(self, symbols, words, _):
        left, right, word = symbols[:-1], symbols[1:], words[:-1]
        pairs = left * _PAIR + right
        slots = self._table.find(pairs)
        ranks = tf.where(tf.gather(self._pairs, slots) == pairs, tf.gather(self._ranks, slots), _NONE)
        lowest = tf.math.segment_min(ranks, word)
        picked = (ranks < _NONE) & (ranks == tf.gather(lowest, word))
        picked = tf.cond(
            tf.reduce_any(picked[1:] & picked[:-1]), lambda: _every_other(picked), lambda: picked
        )
        merged = tf.gather(self._results, tf.where(picked, ranks, 0))
        result = tf.concat([tf.where(picked, merged, left), symbols[-1:]], 0)
        kept = tf.where(tf.concat([[True], ~picked], 0))[:, 0]
        return tf.gather(result, kept), tf.gather(words, kept), tf.reduce_any(picked)


def _every_other(picked):
    """Of each run of pairs that overlap (x x x), the first, third, ..."""
    others = ~picked
    places = tf.concat([[-1], tf.where(others)[:, 0]], 0)
    last = tf.gather(places, tf.cumsum(tf.cast(others, tf.int32)))  # the one before each
    return picked & ((tf.range(tf.size(picked, tf.int64)) - last) % 2 == 1)


def _pack(data, starts, lengths):
    """The first 23 bytes of words and their lengths as three numbers, int64 `[W]` each."""
    padded = tf.pad(data, [[0, -tf.size(data) % _BLOCK + 4 * _BLOCK]])
    blocks = tf.bitcast(tf.reshape(padded, [-1, _BLOCK]), tf.uint64)
    block = tf.bitwise.right_shift(starts, 3)
    shift = tf.cast(tf.bitwise.bitwise_and(starts, 7) * 8, tf.uint64)
    rest = 63 - shift  # one less, and once more below: a shift by 64 is not defined
    size = tf.minimum(lengths, _MAX_KNOWN + 1)
    pieces = [tf.gather(blocks, block + i if i else block) for i in range(4)]
    packed = []
    for i, masks in enumerate(_masks()):
        high = tf.bitwise.left_shift(pieces[i + 1], rest)
        number = tf.bitwise.right_shift(pieces[i], shift) | (high + high)
        packed.append(number & tf.gather(tf.constant(masks), size))
    packed[2] |= tf.gather(tf.constant(np.arange(_MAX_KNOWN + 2, dtype=np.uint64) << 56), size)
    return [tf.bitcast(number, tf.int64) for number in packed]


def _masks():
    """For each of three numbers, the bits of it that a word of 0..24 bytes fills."""
    for i in range(3):
        filled = [min(max(size - i * _BLOCK, 0), _BLOCK - (i == 2)) for size in range(25)]
        yield np.array([(1 << 8 * count) - 1 for count in filled], np.uint64)


def _hash(packed):
    return sum(number * factor for number, factor in zip(packed, _FACTORS, strict=True))


def _equal(packed, others):
    first, second, third = (a == b for a, b in zip(packed, others, strict=True))
    return first & second & third


def _distinct(packed, short):
    """Which of the packed words are equal: the number of each one's kind `[M]`, one of each kind `[U]`.

    By their hashes; a word whose hash is another's, or too long to be compared, is its own kind.
    """
    count = tf.size(short)
    _, of, _ = tf.unique_with_counts(_hash(packed))
    kinds = tf.reduce_max(tf.concat([of, [-1]], 0)) + 1
    every = tf.range(count)
    chosen = tf.math.unsorted_segment_min(every, of, kinds)
    same = _equal([tf.gather(number, tf.gather(chosen, of)) for number in packed], packed)
    alone = ~same | (~short & (every != tf.gather(chosen, of)))
    of = tf.where(alone, kinds - 1 + tf.cumsum(tf.cast(alone, tf.int32)), of)
    return of, tf.concat([chosen, tf.boolean_mask(every, alone)], 0)
