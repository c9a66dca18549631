"""Characters of a batch of texts as one flat tensor, and tables by code point.

A text is a row of code points. A token that was found in it stands there as the one number
`FIRST_TOKEN + id`, above all code points, in a section of its own: no step of a tokenizer looks
beyond its section, and the tables leave such numbers alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfnlp.text.pipeline.library import SEQUENCE, CharacterChanges

FIRST_TOKEN = 0x110000
_PAGE = 256
_TOKENS = FIRST_TOKEN // _PAGE  # number of the page of all tokens
_REPLACEMENT = 0xFFFD


class Text(NamedTuple):
    """Sections of texts."""

    chars: tf.Tensor  # int32 [N]
    splits: tf.Tensor  # int64 [S + 1], where the sections begin and end
    first: tf.Tensor  # bool [S], whether the section begins with its text's first character
    rows: tf.Tensor  # int64 [B + 1], the sections of each text


def read_text(strings: tf.Tensor) -> Text:
    """Return the texts of strings `[B]`, each a section; a byte that is not UTF-8 is U+FFFD."""
    # With a byte between the strings, so that those of two form no character.
    joined = tf.strings.reduce_join(tf.strings.join([strings, tf.constant(b"\0")]))
    data = tf.io.decode_raw(joined, tf.uint8)
    ends = tf.cumsum(tf.cast(tf.strings.length(strings), tf.int64) + 1) - 1  # [B]
    chars, offsets = decoded(data, ends)
    splits = tf.concat([[0], tf.searchsorted(offsets, ends, out_type=tf.int64)], 0)
    count = tf.size(ends, tf.int64)
    return Text(chars, splits, tf.fill([count], True), tf.range(count + 1))


def decoded(data: tf.Tensor, without: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the code points of uint8 `[N]`, and where they begin, int64, but for some places."""
    places, points, widths = outside_ascii(data)
    points = tf.tensor_scatter_nd_update(tf.cast(data, tf.int32), places[:, None], points)
    inside = tf.concat([tf.boolean_mask(places, widths > i) + i for i in (1, 2, 3)], 0)
    offsets = tf.where(~scattered(tf.size(data), tf.concat([inside, without], 0)))[:, 0]
    return tf.gather(points, offsets), offsets


def outside_ascii(data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the places of bytes above ASCII, int64 `[K]`, with what begins there.

    Code points and their widths in bytes, int32 `[K]`: U+FFFD and 1 for a byte that is not UTF-8.
    """
    places = tf.where(data >= 0x80)[:, 0]
    padded = tf.pad(data, [[0, 3]])
    first, second, third, fourth = (
        tf.cast(tf.gather(padded, places + i), tf.int32) for i in range(4)
    )
    tail2, tail3, tail4 = ((byte & 0xC0) == 0x80 for byte in (second, third, fourth))
    low2, low3, low4 = (byte & 0x3F for byte in (second, third, fourth))
    two = (first & 0x1F) * 64 + low2
    three = ((first & 0x0F) * 64 + low2) * 64 + low3
    four = (((first & 0x07) * 64 + low2) * 64 + low3) * 64 + low4
    is_two = (first >= 0xC2) & (first <= 0xDF) & tail2
    surrogate = (three >= 0xD800) & (three <= 0xDFFF)
    is_three = ((first & 0xF0) == 0xE0) & tail2 & tail3 & (three >= 0x800) & ~surrogate
    is_four = ((first & 0xF8) == 0xF0) & tail2 & tail3 & tail4
    is_four &= (four >= 0x10000) & (four < FIRST_TOKEN)
    points, widths = tf.fill(tf.shape(first), _REPLACEMENT), tf.ones_like(first)
    for width, found, value in ((2, is_two, two), (3, is_three, three), (4, is_four, four)):
        points, widths = tf.where(found, value, points), tf.where(found, width, widths)
    return places, points, widths


def scattered(size: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Return bool `[size]`, True at the places int `[P]`."""
    return tf.tensor_scatter_nd_update(
        tf.zeros([size], tf.bool), places[:, None], tf.ones_like(places, tf.bool)
    )


def before(flags: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
    """Return the flag of the character before each `[N]`, False where a word begins."""
    return tf.concat([[False], flags[:-1]], 0)[: tf.size(flags)] & ~begins


def begins_of(text: Text) -> tf.Tensor:
    """Return whether a section begins at each character, bool `[N]`."""
    starts, ends = text.splits[:-1], text.splits[1:]
    return scattered(tf.size(text.chars), tf.boolean_mask(starts, ends > starts))


def last_place(flags: tf.Tensor) -> tf.Tensor:
    """Return for each of bool `[N]` the place of the last True up to it, int64; -1 if none."""
    places = tf.concat([[-1], tf.where(flags)[:, 0]], 0)
    return tf.gather(places, tf.cumsum(tf.cast(flags, tf.int32)))


def utf8(chars: tf.Tensor, where: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return characters `[N]` with the bytes of their UTF-8 in the places of some, int32 `[M]`.

    Also the place of the character that each is of, int64 `[M]`, and its own in that, int32 `[M]`.
    """
    more = [where & (chars >= limit) for limit in (0x80, 0x800, 0x10000)]
    width = 1 + sum(tf.cast(flags, tf.int64) for flags in more)
    of = tf.repeat(tf.range(tf.size(chars, tf.int64)), width)
    starts = tf.cumsum(width) - width
    place = tf.cast(tf.range(tf.size(of, tf.int64)) - tf.gather(starts, of), tf.int32)
    char, count = tf.gather(chars, of), tf.cast(tf.gather(width, of), tf.int32)
    rest = tf.bitwise.right_shift(char, 6 * tf.maximum(count - 1 - place, 0))
    lead = tf.gather(tf.constant([0, 0, 0xC0, 0xE0, 0xF0]), count)
    value = tf.where(place > 0, 0x80 + (rest & 0x3F), tf.where(count > 1, lead + rest, char))
    return value, of, place


def word_of(size: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
    """Return the number of the word of each of `size` characters, int64."""
    ones = tf.ones_like(starts, tf.int64)
    return tf.cumsum(tf.scatter_nd(starts[:, None], ones, size[None])) - 1


def as_bytes(
    ids: tf.Tensor, words: tf.Tensor, lost: tf.Tensor, chars: tf.Tensor, tokens: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return ids and words `[M]` with the tokens of its bytes for each lost character."""
    value, of, _ = utf8(chars, lost)
    gone = tf.gather(lost, of)
    found = tf.where(gone, tf.gather(tokens, tf.where(gone, value, 0)), tf.gather(ids, of))
    return found, tf.gather(words, of)


class Table:
    """Values `[0x110000]` by code point; tokens have 0."""

    def __init__(self, values: np.ndarray) -> None:
        numbers: dict[bytes, int] = {}
        padded = np.concatenate([values, np.zeros(_PAGE, values.dtype)]).reshape(-1, _PAGE)
        page_of = [numbers.setdefault(page.tobytes(), len(numbers)) for page in padded]
        self._pages = tf.constant(np.frombuffer(b"".join(numbers), values.dtype))
        self._page_of = tf.constant(page_of, tf.int32)

    def of(self, chars: tf.Tensor) -> tf.Tensor:
        """Return the values of int32 `[N]`."""
        page = tf.minimum(tf.bitwise.right_shift(chars, 8), _TOKENS)
        return tf.gather(
            self._pages, tf.gather(self._page_of, page) * _PAGE + tf.bitwise.bitwise_and(chars, 255)
        )


class CharacterMap:
    """Characters to none, one or several, each alone."""

    def __init__(self, changes: CharacterChanges) -> None:
        self._table = Table(changes.differences)
        self._several = Several(changes.sequences)

    def apply(self, text: Text) -> Text:
        """Return the text with every character replaced."""
        chars = text.chars + self._table.of(text.chars)
        if not self._several.count:
            return text._replace(chars=chars)
        return self._several.apply(text, chars)


class Several:
    """Sequences of code points that take the places of single characters."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        self.count = len(sequences)
        lengths = np.array([len(s) for s in sequences], np.int64)
        self._flat = tf.constant([c for s in sequences for c in s], tf.int32)
        self._lengths = tf.constant(lengths)
        self._starts = tf.constant(np.cumsum(lengths) - lengths)

    def number(self, sequence: tf.Tensor | int) -> tf.Tensor | int:
        """Return the character that stands for a sequence until `apply`."""
        return SEQUENCE + sequence

    def apply(self, text: Text, chars: tf.Tensor) -> Text:
        """Return the text with these characters `[N]`, sequences in their places."""

        def expanded() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            is_one = chars < SEQUENCE
            which = tf.maximum(chars - SEQUENCE, 0)
            count = tf.size(chars, tf.int64)
            starts = tf.where(is_one, tf.range(count), count + tf.gather(self._starts, which))
            lengths = tf.where(is_one, tf.constant(1, tf.int64), tf.gather(self._lengths, which))
            places = tf.ragged.range(starts, starts + lengths)
            found = tf.gather(tf.concat([chars, self._flat], 0), places.flat_values)
            splits = tf.gather(places.row_splits, text.splits)
            # A section whose first character is gone does not begin with it.
            at = tf.minimum(text.splits[:-1], count)
            kept = tf.gather(tf.concat([lengths, [1]], 0), at) > 0
            return found, splits, text.first & kept

        found, splits, first = tf.cond(
            tf.reduce_any(chars >= SEQUENCE), expanded, lambda: (chars, text.splits, text.first)
        )
        return text._replace(chars=found, splits=splits, first=first)


def insert(chars: tf.Tensor, at: tf.Tensor, content: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Return characters `[M]` with others before those where bool `at` `[N]` holds.

    Also the new places of the old ones, int64 `[N]`.
    """
    count = tf.size(chars, tf.int64)
    places = tf.range(count) + tf.cumsum(tf.cast(at, tf.int64)) * len(content)
    starts = tf.boolean_mask(places, at) - len(content)  # [K]
    size = count + tf.size(starts, tf.int64) * len(content)
    new = tf.scatter_nd(places[:, None], chars, [size])
    for i, char in enumerate(content):
        new = tf.tensor_scatter_nd_update(
            new, starts[:, None] + i, tf.fill(tf.shape(starts), tf.constant(char, tf.int32))
        )
    return new, places


def keep(chars: tf.Tensor, kept: tf.Tensor, splits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the characters where bool `kept` `[N]` holds, and the splits of their sections."""
    number = tf.concat([[0], tf.cumsum(tf.cast(kept, tf.int64))], 0)
    return tf.boolean_mask(chars, kept), tf.gather(number, splits)
