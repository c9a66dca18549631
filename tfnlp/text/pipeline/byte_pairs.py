"""Byte-pair encoding (Sennrich et al. 2016, algorithm 1 applied) as TensorFlow graph ops.

Of all adjacent pairs of symbols in a word, the one that was learnt first is merged wherever it
occurs, from left to right; this is repeated until no pair is left that was learnt. Here each step
merges one pair in every word of a batch at once.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfnlp.text.pipeline.characters import FIRST_TOKEN, Table, as_bytes, last_place, word_of
from tfnlp.text.pipeline.pieces import StaticTable

_MISSING_TOKENS = "the text needs tokens that the vocabulary lacks"
_NONE = np.iinfo(np.int32).max  # rank of a pair that was not learnt
_PAIR = 1 << 31  # a pair as one number: left * _PAIR + right


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


def without_missing_tokens(ids: tf.Tensor) -> tf.Tensor:
    """Return ids; raise for those below 0."""
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(ids >= 0), [_MISSING_TOKENS])]):
        return tf.identity(ids)


class BytePairs:
    """Words to the ids of what their characters are merged into.

    Args:
        ids, merges: of the tokens; pairs of symbols in the order of their rank.
        suffix: what ends the last symbol of a word.
        unknown: id of characters that are no symbol, and of symbols that are no token; None: such
            characters are left out.
        fuses: unknown characters that follow each other are one.
        tokens_of_bytes: for unknown characters, those of their UTF-8, or None.
        in_turn: merge pairs one at a time where that can make a difference, as the tokenizers
            library does: what a merge makes can be part of a pair of lower rank.
    """

    def __init__(
        self,
        ids: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        suffix: str = "",
        unknown: int | None = None,
        fuses: bool = False,
        tokens_of_bytes: Sequence[str] | None = None,
        in_turn: bool = False,
    ) -> None:
        ranks = {pair: rank for rank, pair in enumerate(merges)}  # the last one counts
        names = dict.fromkeys(ids)
        for left, right in merges:
            names.update({left: None, right: None, left + right: None})
        numbers = {name: i for i, name in enumerate(names)}
        self._separator = len(numbers) + 1  # follows each word
        self._drops = unknown is None
        self._lost = next((numbers[name] for name, i in ids.items() if i == unknown), len(numbers))
        absent = -1 if unknown is None else unknown
        self._ids = tf.constant([*(ids.get(name, absent) for name in names), absent], tf.int32)
        self._fuses = fuses
        self._bytes = None
        if tokens_of_bytes is not None:
            self._bytes = tf.constant([numbers[token] for token in tokens_of_bytes], tf.int32)
        inner, last = (np.zeros(FIRST_TOKEN, np.int32) for _ in range(2))
        for name, number in numbers.items():
            if len(name) == 1:
                inner[ord(name)] = number + 1
            if suffix and len(name) == 1 + len(suffix) and name.endswith(suffix):
                last[ord(name[0])] = number + 1
        self._inner, self._last = Table(inner), Table(last) if suffix else None
        self._ranks = StaticTable(
            np.array([numbers[a] * _PAIR + numbers[b] for a, b in ranks], np.int64),
            np.array(list(ranks.values()), np.int32),
        )
        self._results = tf.constant([numbers[a + b] for a, b in merges] or [0], tf.int64)
        self._in_turn = None
        if in_turn:
            lowest: dict[str, int] = {}
            for pair, rank in ranks.items():
                for symbol in pair:
                    lowest[symbol] = min(rank, lowest.get(symbol, _NONE))
            early = [lowest.get(a + b, _NONE) < ranks[a, b] for a, b in merges]
            self._in_turn = tf.constant(early) if any(early) else None

    def __call__(
        self, chars: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the ids of words and the numbers of their words, as `Model` takes them."""
        word = word_of(tf.size(chars, tf.int64), starts)
        symbols = self._inner.of(chars)
        if self._last is not None:
            at = ends - 1
            final = self._last.of(tf.gather(chars, at))
            symbols = tf.tensor_scatter_nd_update(symbols, at[:, None], final)
        lost = symbols == 0
        symbols -= 1
        if self._bytes is not None:
            symbols, word = as_bytes(symbols, word, lost, chars, self._bytes)
        elif self._drops:
            symbols, word = tf.boolean_mask(symbols, ~lost), tf.boolean_mask(word, ~lost)
        else:
            symbols = tf.where(lost, self._lost, symbols)
            if self._fuses:
                symbols, word = fused(symbols, word, lost)
        # A word may have no symbols left; each is followed by a separator all the same.
        words, count = tf.size(starts, tf.int64), tf.size(symbols, tf.int64)
        places = tf.range(count) + word
        every = tf.fill([count + words], tf.constant(self._separator, tf.int64))
        every = tf.tensor_scatter_nd_update(every, places[:, None], tf.cast(symbols, tf.int64))
        merged, word = self._merge(every)
        kept = tf.where(merged != self._separator)[:, 0]
        return tf.gather(self._ids, tf.gather(merged, kept)), tf.gather(word, kept)

    def _merge(self, symbols: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the symbols, int64 `[N]`, after all merges, and the words that they are of."""
        separates = tf.cast(symbols == self._separator, tf.int64)
        free = tf.TensorShape([None])
        return tf.while_loop(
            lambda symbols, words, more: more,
            self._merge_once,
            (symbols, tf.cumsum(separates, exclusive=True), tf.size(symbols) > 0),
            shape_invariants=(free, free, tf.TensorShape([])),
        )[:2]

    def _merge_once(
        self, symbols: tf.Tensor, words: tf.Tensor, _: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        left, right, word = symbols[:-1], symbols[1:], words[:-1]
        known, ranks = self._ranks.find(left * _PAIR + right)
        ranks = tf.where(known, ranks, _NONE)
        lowest = tf.math.segment_min(ranks, word)
        picked = known & (ranks == tf.gather(lowest, word))
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


def fused(ids: tf.Tensor, words: tf.Tensor, lost: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return ids and their words `[M]` with one for lost ones that follow each other in a word."""
    same = tf.concat([[False], (words[1:] == words[:-1]) & lost[:-1]], 0)[: tf.size(ids)]
    kept = ~(lost & same)
    return tf.boolean_mask(ids, kept), tf.boolean_mask(words, kept)


def _every_other(picked: tf.Tensor) -> tf.Tensor:
    """Return the first, third, ... of each run of pairs that overlap (x x x)."""
    return picked & ((tf.range(tf.size(picked, tf.int64)) - last_place(~picked)) % 2 == 1)
