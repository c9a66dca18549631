"""Byte-pair encoding (Sennrich et al. 2016, algorithm 1 applied) as TensorFlow graph ops.

Of all adjacent pairs of symbols in a word, the one that was learnt first is merged wherever it
occurs, from left to right; this is repeated until no pair is left that was learnt. Here each step
merges one pair in every word of a batch at once. Words that are one token are looked up by their
bytes: a word of up to `8 n - 1` bytes is packed into n 64-bit numbers, its length in the last byte,
so that equal words have equal numbers. No string tensors are made.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

_MIXERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD)
_BLOCK = 8  # bytes in a 64-bit number
_FACTORS = tuple(
    int(np.uint64(x).astype(np.int64))
    for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
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
        in_turn: merge pairs one at a time where that can make a difference, as the tokenizers
            library does: what a merge makes can be part of a pair of lower rank.
    """

    def __init__(
        self,
        tokens: Sequence[str | None],
        merges: Sequence[tuple[str, str]],
        first_symbols: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None,
        alphabet: Sequence[str] = (),
        unknown: int | None = None,
        in_turn: bool = False,
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
        self._in_turn = None
        if in_turn:
            lowest: dict[str, int] = {}
            for pair, rank in ranks.items():
                for symbol in pair:
                    lowest[symbol] = min(rank, lowest.get(symbol, _NONE))
            early = [lowest.get(a + b, _NONE) < ranks[a, b] for a, b in merges]
            self._in_turn = tf.constant(early) if any(early) else None
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
        if self._in_turn is not None:
            single = picked & tf.gather(self._in_turn, tf.where(picked, ranks, 0))
            place = tf.where(single, tf.range(tf.size(word)), tf.int32.max)
            picked &= ~single | (place == tf.gather(tf.math.segment_min(place, word), word))
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


class StaticTable:
    """Table of slots for the distinct int64 `keys` `[n]`, looked up in the graph by gathers alone.

    Row displacement: each hash has a row and a column; every row is shifted by a distance of its
    own so that no two hashes get the same slot: `slot = (shift[row] + column) mod slots`. A look-up
    is two gathers, which use all cores, while TensorFlow's hash tables look up one key at a time.
    The table is plain constants: nothing is initialised when a SavedModel is loaded.

    Attributes:
        size: number of slots, at least twice that of keys.
        slots: int `[n]`, numpy, the slot of each key.
    """

    def __init__(self, keys: np.ndarray) -> None:
        bits = max(4, int(2 * max(1, len(keys)) - 1).bit_length())
        self.size = 1 << bits
        for mixer in _MIXERS:
            self._mixer = int(np.uint64(mixer).astype(np.int64))
            self._row_shift, self._row_mask = 64 - bits, (1 << (bits - 1)) - 1
            self._column_shift = 64 - 2 * bits
            with np.errstate(over="ignore"):
                mixed = keys * np.int64(self._mixer)
            rows = (mixed >> self._row_shift) & self._row_mask
            columns = (mixed >> self._column_shift) & (self.size - 1)
            shifts = _displace(rows, columns, self._row_mask + 1, self.size)
            if shifts is not None:
                break
        else:
            raise ValueError(f"no table found for {len(keys)} keys; remove equal ones")
        self.slots = (shifts[rows] + columns) & (self.size - 1)
        self._shifts = tf.constant(shifts)

    def find(self, keys: tf.Tensor) -> tf.Tensor:
        """Return the slots of int64 keys `[N]`; an unknown key gets an arbitrary one."""
        mixed = keys * self._mixer
        rows = tf.bitwise.right_shift(mixed, self._row_shift) & self._row_mask
        columns = tf.bitwise.right_shift(mixed, self._column_shift)
        return (tf.gather(self._shifts, rows) + columns) & (self.size - 1)


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
