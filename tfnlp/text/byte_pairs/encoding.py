"""Byte-pair encoding (Sennrich et al. 2016, algorithm 1 applied) as TensorFlow graph ops.

Of all adjacent pairs of symbols in a word, the one that was learnt first is merged wherever it
occurs, from left to right; this is repeated until no pair is left that was learnt. Here each step
merges one pair in every word of a batch at once.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from tfnlp.text.byte_pairs.known_words import KnownWords, distinct_words, longest_packed, pack_words
from tfnlp.text.byte_pairs.static_table import StaticTable

_MISSING_TOKENS = "the text needs tokens that the vocabulary lacks"
_NONE = np.iinfo(np.int32).max  # rank of a pair that was not learnt
_PAIR = 1 << 31  # a pair as one number: left * _PAIR + right
# Numbers that a word is packed into: one holds most words of a text, three nearly all of them.
_FEW, _MANY = 1, 3


@contextlib.contextmanager
def missing_tokens_explained() -> Iterator[None]:
    """Turn TensorFlow's error for a text with missing tokens into a ValueError of one line."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        if _MISSING_TOKENS not in error.message:
            raise
        raise ValueError(
            f"{_MISSING_TOKENS} (line ends are text, too); use one that has all 256 bytes, as a "
            "learnt one has, or leave out that text"
        ) from error


class BytePairs:
    """Encoder of words as token ids.

    Words that are one token are looked up. Of the others, each distinct word of a batch goes
    through the merges once.

    Args:
        tokens: token strings by id, None where an id has no token.
        merges: pairs of symbols in the order of their rank.
        first_symbols: function of the bytes of some words, uint8 `[n]`, and their lengths, int32
            `[w]`, that returns their symbols, int64, each word followed by `separator`.
        alphabet: the symbols that it can return.
        unknown: id for symbols that are no token; None makes them an error.
    """

    def __init__(
        self,
        tokens: Sequence[str | None],
        merges: Sequence[tuple[str, str]],
        first_symbols: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        alphabet: Sequence[str] = (),
        unknown: int | None = None,
    ) -> None:
        ids = {token: i for i, token in enumerate(tokens) if token is not None}
        ranks = {pair: rank for rank, pair in enumerate(merges)}  # the last one counts
        names = dict.fromkeys(ids)
        for left, right in merges:
            names.update({left: None, right: None, left + right: None})
        self.symbols = {name: i for i, name in enumerate(names)}
        self.unknown = len(self.symbols)
        self.separator = self.unknown + 1
        self._first_symbols = first_symbols
        self._complete = unknown is not None or ids.keys() >= {*names, *alphabet}
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
        self._short, self._long = (
            KnownWords([tf.zeros([0], tf.int64)] * count, np.zeros(0, np.int32))
            for count in (_FEW, _MANY)
        )

    def learn_words(self, words: Sequence[bytes], ids: Sequence[int]) -> None:
        """Store those of `words` that are encoded as one token, the one in `ids`, for look-up."""
        lengths = np.array([len(word) for word in words], np.int32)
        ends = np.cumsum(lengths, dtype=np.int32)
        data = tf.constant(np.frombuffer(b"".join(words), np.uint8))
        encoded = self.encode(data, tf.constant(ends - lengths), tf.constant(ends), strict=False)
        first = np.full(len(words), -1)
        single = encoded.row_lengths().numpy() == 1
        first[single] = encoded.values.numpy()[encoded.row_starts().numpy()[single]]
        right = first == np.asarray(ids)

        def known(count: int, shortest: int) -> KnownWords:
            chosen = (lengths >= shortest) & (lengths <= longest_packed(count)) & right
            packed = pack_words(data, (ends - lengths)[chosen], lengths[chosen], count)
            return KnownWords(packed, first[chosen])

        self._short, self._long = known(_FEW, 1), known(_MANY, longest_packed(_FEW) + 1)

    def encode(
        self, data: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, strict: bool = True
    ) -> tf.RaggedTensor:
        """Return the ids of words, int32 ragged `[W, (tokens)]`.

        Args:
            data: uint8 `[N]`.
            starts, ends: int32 `[W]`, where in `data` each word begins and ends.
            strict: raise for a symbol that has no token; else its id is -1.
        """
        lengths = ends - starts
        known, ids = self._short.find(pack_words(data, starts, lengths, _FEW))
        others = tf.where(~known & (lengths > 0))[:, 0]  # [R]
        begins, sizes = tf.gather(starts, others), tf.gather(lengths, others)
        packed = pack_words(data, begins, sizes, _MANY)
        known, other_ids = self._long.find(packed)  # [R]
        ids = tf.tensor_scatter_nd_update(ids, others[:, None], other_ids)
        lost = tf.where(~known)[:, 0]  # [M], among the others
        of, chosen = distinct_words(
            [tf.gather(number, lost) for number in packed], tf.gather(sizes, lost)
        )
        chosen, missing = tf.gather(lost, chosen), tf.gather(others, lost)  # [U], [M]
        begin, length = tf.gather(begins, chosen), tf.gather(sizes, chosen)
        own = tf.gather(data, tf.ragged.range(begin, begin + length).flat_values)
        symbols = self.merge(self._first_symbols(own, length))
        limits = tf.where(symbols == self.separator)[:, 0]  # [U]
        firsts = tf.concat([[0], limits[:-1] + 1], 0)[: tf.size(limits)]
        merged = tf.gather(self._ids, symbols)
        if strict and not self._complete:
            absent = tf.boolean_mask(merged, symbols != self.separator) < 0
            check = tf.debugging.Assert(~tf.reduce_any(absent), [_MISSING_TOKENS])
            with tf.control_dependencies([check] if check is not None else []):
                merged = tf.identity(merged)
        # One list of candidates: the ids that were looked up, then those from merging.
        count = tf.size(starts, tf.int64)
        source = tf.concat([ids, merged], 0)
        first = tf.tensor_scatter_nd_update(
            tf.range(count), missing[:, None], count + tf.gather(firsts, of)
        )
        number = tf.tensor_scatter_nd_update(
            tf.cast(lengths > 0, tf.int64), missing[:, None], tf.gather(limits - firsts, of)
        )
        places = tf.ragged.range(first, first + number)
        return places.with_flat_values(tf.gather(source, places.flat_values))

    def merge(self, symbols: tf.Tensor) -> tf.Tensor:
        """Return the symbols, int64 `[N]`, after all merges; `separator` ends each word."""
        separates = tf.cast(symbols == self.separator, tf.int64)
        words = tf.cumsum(separates, exclusive=True)
        free = tf.TensorShape([None])
        return tf.while_loop(
            lambda symbols, words, more: more,
            self._merge_once,
            (symbols, words, tf.size(symbols) > 0),
            shape_invariants=(free, free, tf.TensorShape([])),
        )[0]

    def _merge_once(
        self, symbols: tf.Tensor, words: tf.Tensor, _: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        left, right, word = symbols[:-1], symbols[1:], words[:-1]
        pairs = left * _PAIR + right
        slots = self._table.find(pairs)
        ranks = tf.where(
            tf.gather(self._pairs, slots) == pairs, tf.gather(self._ranks, slots), _NONE
        )
        lowest = tf.math.segment_min(ranks, word)
        picked = (ranks < _NONE) & (ranks == tf.gather(lowest, word))
        picked = tf.cond(
            tf.reduce_any(picked[1:] & picked[:-1]), lambda: _every_other(picked), lambda: picked
        )
        merged = tf.gather(self._results, tf.where(picked, ranks, 0))
        result = tf.concat([tf.where(picked, merged, left), symbols[-1:]], 0)
        kept = tf.where(tf.concat([[True], ~picked], 0))[:, 0]
        return tf.gather(result, kept), tf.gather(words, kept), tf.reduce_any(picked)


def _every_other(picked: tf.Tensor) -> tf.Tensor:
    """Return the first, third, ... of each run of pairs that overlap (x x x)."""
    others = ~picked
    places = tf.concat([[-1], tf.where(others)[:, 0]], 0)
    last = tf.gather(places, tf.cumsum(tf.cast(others, tf.int32)))  # the one before each
    return picked & ((tf.range(tf.size(picked, tf.int64)) - last) % 2 == 1)
