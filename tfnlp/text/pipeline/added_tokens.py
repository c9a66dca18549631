"""Added tokens of a `tokenizer.json`: those that a text has written, found before all else."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.text.pipeline import library
from tfnlp.text.pipeline.characters import (
    FIRST_TOKEN,
    Table,
    Text,
    begins_of,
    keep,
    last_place,
    scattered,
)
from tfnlp.text.pipeline.pieces import Pieces, prefix_hashes


class AddedTokens:
    """Entries of `added_tokens` that are looked for in texts, by their spellings.

    At each place the longest one counts, and the search goes on behind it. With `as_text` special
    ones stay text, and no token is found inside them either.
    """

    def __init__(
        self, tokens: Sequence[Mapping[str, Any]], spellings: Sequence[str], as_text: bool
    ) -> None:
        self._pieces = Pieces({text: i for i, text in enumerate(spellings)})
        first = np.zeros(FIRST_TOKEN, bool)
        first[[ord(text[0]) for text in spellings]] = True
        self._first = Table(first)
        self._lengths = tf.constant([len(text) for text in spellings], tf.int64)
        self._ids = tf.constant([token["id"] for token in tokens], tf.int32)
        self._is_text = tf.constant([as_text and token["special"] for token in tokens])
        self._left, self._right, self._alone = (
            tf.constant([bool(token.get(name)) for token in tokens])
            for name in ("lstrip", "rstrip", "single_word")
        )
        self._kinds = Table((library.spaces() + 2 * library.word_characters()).astype(np.int32))

    def find(self, text: Text) -> Text:
        """Return the text with these tokens as sections of their own."""
        begins = begins_of(text)
        places = tf.where(self._first.of(text.chars))[:, 0]
        return tf.cond(tf.size(places) > 0, lambda: self._found(text, begins, places), lambda: text)

    def _found(self, text: Text, begins: tf.Tensor, places: tf.Tensor) -> Text:
        chars, size = text.chars, tf.size(text.chars, tf.int64)
        starts = last_place(begins)  # [N], of the section
        ends = size - 1 - last_place(tf.concat([begins[1:], [True]], 0)[:size][::-1])[::-1] + 1
        found, which = self._pieces.longest(prefix_hashes(chars), places, tf.gather(ends, places))
        places, which = tf.boolean_mask(places, found), tf.boolean_mask(which, found)
        stops = places + tf.gather(self._lengths, which)
        taken = _not_overlapping(places, stops)
        places, which, stops = (tf.boolean_mask(x, taken) for x in (places, which, stops))
        low, high = tf.gather(starts, places), tf.gather(ends, places)
        kinds = tf.pad(self._kinds.of(chars), [[1, 1]])
        is_word = kinds >= 2
        inside = (places > low) & tf.gather(is_word, places)
        inside |= (stops < high) & tf.gather(is_word, stops + 1)
        taken = ~(tf.gather(self._alone, which) & inside | tf.gather(self._is_text, which))
        places, which, stops, low, high = (
            tf.boolean_mask(x, taken) for x in (places, which, stops, low, high)
        )
        other = kinds[1:-1] % 2 == 0  # no white space
        left = tf.maximum(tf.gather(tf.concat([[-1], last_place(other)], 0), places) + 1, low)
        right = size - 1 - last_place(other[::-1])[::-1]  # [N], the next one
        right = tf.minimum(tf.gather(tf.concat([right, [size]], 0), stops), high)
        stops = tf.where(tf.gather(self._right, which), right, stops)
        left = tf.where(tf.gather(self._left, which), left, places)
        # White space goes with the token before it.
        earlier = tf.concat([[0], stops[:-1]], 0)[: tf.size(stops)]
        left = tf.maximum(left, earlier)
        return self._cut(text, tf.minimum(left, stops - 1), which, stops)

    def _cut(self, text: Text, left: tf.Tensor, which: tf.Tensor, stops: tf.Tensor) -> Text:
        """Return the text with one character for what is from `left` to `stops`."""
        size = tf.size(text.chars, tf.int64)
        ids = FIRST_TOKEN + tf.gather(self._ids, which)
        chars = tf.tensor_scatter_nd_update(text.chars, left[:, None], ids)
        gone = tf.ragged.range(left + 1, tf.maximum(stops, left + 1)).values
        kept = ~scattered(size, gone)
        # Sections also begin at tokens and behind them.
        cuts = tf.concat([left, stops], 0)
        old = text.splits[:-1]
        flags = scattered(size + 1, cuts) & ~scattered(size + 1, text.splits)
        new = tf.where(flags)[:, 0]
        every = tf.sort(tf.concat([text.splits, new], 0))
        number = tf.cumsum(tf.cast(flags, tf.int64), exclusive=True)  # new ones before
        rows = text.rows + tf.gather(number, tf.gather(text.splits, text.rows))
        places = tf.range(tf.size(old, tf.int64)) + tf.gather(number, old)
        first = tf.tensor_scatter_nd_update(
            tf.fill([tf.size(every) - 1], False), places[:, None], text.first
        )
        chars, splits = keep(chars, kept, every)
        return Text(chars, splits, first, rows)


def _not_overlapping(starts: tf.Tensor, stops: tf.Tensor) -> tf.Tensor:
    """Return which matches are left when each that begins inside an earlier one is dropped."""

    def one_by_one() -> tf.Tensor:
        count = tf.size(starts)

        def step(i: tf.Tensor, end: tf.Tensor, taken: tf.Tensor) -> tuple[tf.Tensor, ...]:
            takes = starts[i] >= end
            taken = tf.tensor_scatter_nd_update(taken, [[i]], [takes])
            return i + 1, tf.where(takes, stops[i], end), taken

        return tf.while_loop(
            lambda i, *_: i < count,
            step,
            (0, tf.constant(0, tf.int64), tf.ones_like(starts, tf.bool)),
        )[2]

    overlaps = tf.reduce_any(starts[1:] < stops[:-1])
    return tf.cond(overlaps, one_by_one, lambda: tf.ones_like(starts, tf.bool))
