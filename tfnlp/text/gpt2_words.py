r"""GPT-2's splitting of text into words, on bytes, inside the TensorFlow graph.

The published pattern (`encoder.py` of openai/gpt-2) is

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

TensorFlow's regular expressions lack the look-ahead `(?!\S)` and take longer than all the rest of
tokenizing. But three neighbouring characters decide whether a word begins at the middle one:

- at a letter, digit or other mark: where the kind of character changes, unless a space precedes,
  which then begins the word;
- at white space: where a run of it begins, and at its last character if something follows;
- an apostrophe that begins a word and is followed by s, t, re, ve, m, ll or d forms one word with
  these letters.

So one look-up in a table of the kinds of three neighbours finds all words of a batch.
"""

import functools
import unicodedata
from collections.abc import Callable

import numpy as np
import tensorflow as tf

# Kinds of characters. END follows every string.
_LETTER, _DIGIT, _OTHER, _WHITE, _SPACE, _END = range(6)
_KINDS = 6
_WHITE_SPACE = (
    *range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
    0x205F, 0x3000,
)  # fmt: skip
_MAX_CODE_POINTS = 0x110000
_PAGE = 256
_PADDING = 3  # bytes after the text that may be read


def characters(data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return offsets int64 `[C]` and code points int32 `[C]` of the characters of uint8 `[N]`.

    A byte that is not part of valid UTF-8 is a character of its own, with the code point
    0xDC00 + byte, as in Python's `data.decode("utf-8", "surrogateescape")`.
    """
    places, points, widths = _outside_ascii(data)
    points = tf.tensor_scatter_nd_update(tf.cast(data, tf.int32), places[:, None], points)
    inside = _continuations(places, widths)
    begins = tf.tensor_scatter_nd_update(
        tf.ones_like(data, tf.bool), inside[:, None], tf.zeros_like(inside, tf.bool)
    )
    offsets = tf.where(begins)[:, 0]
    return offsets, tf.gather(points, offsets)


def _outside_ascii(data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the places of bytes above ASCII and the code points that begin there.

    Returns:
        Places int64 `[K]`; code points int32 `[K]`; their widths in bytes, int32 `[K]`, 1 for a
        byte that begins no character.
    """
    places = tf.where(data >= 0x80)[:, 0]
    padded = tf.pad(data, [[0, _PADDING]])
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
    is_four &= (four >= 0x10000) & (four < _MAX_CODE_POINTS)
    points, widths = 0xDC00 + first, tf.ones_like(first)
    for width, found, value in ((2, is_two, two), (3, is_three, three), (4, is_four, four)):
        points, widths = tf.where(found, value, points), tf.where(found, width, widths)
    return places, points, widths


def _continuations(places: tf.Tensor, widths: tf.Tensor) -> tf.Tensor:
    """Return the places of all bytes of characters except their first ones."""
    return tf.concat([tf.boolean_mask(places, widths > i) + i for i in (1, 2, 3)], 0)


def gpt2_words(strings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Split strings `[B]` into words.

    Bytes that are not UTF-8 count as marks (neither letter, digit nor white space). Letters and
    digits are those of the Unicode version of the Python that runs it first.

    Returns:
        `(data, starts, ends, row_splits)`: uint8 `[N]`, the strings, each followed by one byte;
        int32 `[W]` twice, where in `data` the words begin and end, with one empty word at the end
        of each string; int64 `[B + 1]`, the words of each string.
    """
    return _words()(strings)


@functools.cache
def _words() -> Callable:
    """Return the traced function; cached, as tracing takes longer than the rest of a tokenizer."""
    with tf.init_scope(), tf.device("CPU:0"):  # where strings are
        words = _Words()
    return tf.function(words, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)


class _Words:
    """`gpt2_words` with its tables."""

    def __init__(self) -> None:
        kinds = _kinds_of_characters()
        pages, numbers = np.unique(kinds.reshape(-1, _PAGE), axis=0, return_inverse=True)
        self._pages = tf.constant(pages.reshape(-1))  # [pages * 256]
        self._page_of = tf.constant(numbers.reshape(-1).astype(np.int32))  # [0x1100]
        self._of_bytes = tf.constant(np.where(np.arange(256) < 0x80, kinds[:256], _OTHER))
        self._begins = tf.constant(_beginnings())  # [6 * 6 * 6]

    def __call__(self, strings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        row_ends = tf.cumsum(tf.strings.length(strings) + 1) - 1  # [B], of the bytes that follow
        joined = tf.strings.reduce_join(tf.strings.join([strings, tf.constant(b"\0")]))
        data = tf.io.decode_raw(joined, tf.uint8)  # [N]
        begins, kinds = self._beginnings(data, row_ends)
        places = tf.where(begins)[:, 0]  # [W]
        starts = tf.cast(places, tf.int32)
        is_end = tf.gather(kinds, places) == _END
        ends = tf.concat([starts[1:], tf.fill([1], tf.size(data))], 0)[: tf.size(starts)]
        ends = tf.where(is_end, starts, ends)
        row_splits = tf.concat([[0], tf.where(is_end)[:, 0] + 1], 0)
        return data, starts, ends, row_splits

    def _beginnings(self, data: tf.Tensor, row_ends: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return whether a word begins at each byte, bool `[N]`, and the kinds of the bytes."""
        kinds = tf.gather(self._of_bytes, tf.cast(data, tf.int32))  # [N]
        # All bytes of a character above ASCII get its kind. No word begins between neighbours of
        # one kind, so this is all for letters, digits and marks.
        places, points, widths = _outside_ascii(data)
        page = tf.gather(self._page_of, tf.bitwise.right_shift(points, 8))
        found = tf.gather(self._pages, page * _PAGE + (points & (_PAGE - 1)))
        special = tf.where((widths > 1) & (found != _OTHER))[:, 0]
        places, widths = tf.gather(places, special), tf.gather(widths, special)
        found = tf.gather(found, special)
        for i in range(4):
            own = tf.where(widths > i)[:, 0]
            kinds = tf.tensor_scatter_nd_update(
                kinds, tf.gather(places, own)[:, None] + i, tf.gather(found, own)
            )
        kinds = tf.tensor_scatter_nd_update(
            kinds, row_ends[:, None], tf.fill(tf.shape(row_ends), tf.constant(_END, kinds.dtype))
        )
        before = tf.concat([[_END], kinds[:-1]], 0)[: tf.size(kinds)]
        after = tf.concat([kinds[1:], [_END]], 0)[: tf.size(kinds)]
        index = (before * _KINDS + kinds) * _KINDS + after
        begins = tf.gather(self._begins, tf.cast(index, tf.int32))
        # White space is looked up at its first byte, with what follows its last one.
        white = tf.where(found == _WHITE)[:, 0]
        places, widths = tf.gather(places, white), tf.gather(widths, white)
        inside = _continuations(places, widths)
        begins = tf.tensor_scatter_nd_update(
            begins, inside[:, None], tf.zeros_like(inside, tf.bool)
        )
        after = tf.gather(kinds, places + tf.cast(widths, tf.int64))
        index = (tf.gather(before, places) * _KINDS + _WHITE) * _KINDS + after
        begins = tf.tensor_scatter_nd_update(
            begins, places[:, None], tf.gather(self._begins, tf.cast(index, tf.int32))
        )
        return _contractions(begins, before, data), kinds


def _contractions(begins: tf.Tensor, before: tf.Tensor, data: tf.Tensor) -> tf.Tensor:
    """Return `begins` with no word after a contraction's apostrophe but one after its letters."""
    places = tf.where(data == ord("'"))[:, 0]
    previous = tf.gather(before, places)
    places = tf.boolean_mask(places, (previous != _SPACE) & (previous != _OTHER))
    padded = tf.pad(data, [[0, 2]])
    one, two = tf.gather(padded, places + 1), tf.gather(padded, places + 2)
    short = tf.zeros_like(one, tf.bool)
    for letter in "stmd":
        short |= one == ord(letter)
    long = tf.zeros_like(short)
    for first, second in ("re", "ve", "ll"):
        long |= (one == ord(first)) & (two == ord(second))
    short, long = tf.boolean_mask(places, short), tf.boolean_mask(places, long)
    off = tf.concat([short, long], 0) + 1
    on = tf.concat([short + 2, long + 3], 0)
    updates = tf.concat([tf.zeros_like(off, tf.bool), tf.ones_like(on, tf.bool)], 0)
    return tf.tensor_scatter_nd_update(begins, tf.concat([off, on], 0)[:, None], updates)


def _kinds_of_characters() -> np.ndarray:
    """Return the kind of each code point, uint8 `[0x110000]`."""
    kinds = {"L": _LETTER, "N": _DIGIT}
    table = np.array(
        [kinds.get(unicodedata.category(chr(i))[0], _OTHER) for i in range(_MAX_CODE_POINTS)],
        np.uint8,
    )
    table[list(_WHITE_SPACE)] = _WHITE
    table[ord(" ")] = _SPACE
    return table


def _beginnings() -> np.ndarray:
    """Return whether a word begins at a character, by its kind and those of its neighbours."""
    white = (_WHITE, _SPACE)
    begins = np.zeros([_KINDS, _KINDS, _KINDS], bool)
    for before in range(_KINDS):
        for here in range(_KINDS):
            for after in range(_KINDS):
                if _END in (before, here):
                    begin = True
                elif here in white:
                    begin = before not in white or after not in (*white, _END)
                else:
                    begin = before not in (here, _SPACE)
                begins[before, here, after] = begin
    return begins.reshape(-1)
