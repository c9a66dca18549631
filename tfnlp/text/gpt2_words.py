"""GPT-2's splitting of text into words, on bytes, inside the TensorFlow graph.

The published pattern (`encoder.py` of openai/gpt-2) is

    's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+

TensorFlow's regular expressions lack the look-ahead `(?!\\S)`, and cost more than all the rest of
tokenizing.  But where a word begins is decided by a character, the one before and the one after:

- a letter, digit or other mark: where the kind of character changes, unless a space stands before,
  which then begins the word;
- white space: where a run of it begins, and at its last character if something follows;
- an apostrophe with s, t, re, ve, m, ll or d behind it that itself begins a word also ends one
  behind these letters.

So a table of three neighbours' kinds gives all words of a batch at once.
"""

import unicodedata

import numpy as np
import tensorflow as tf

# Kinds of characters. END stands behind every string.
_LETTER, _DIGIT, _OTHER, _WHITE, _SPACE, _END = range(6)
_KINDS = 6
_WHITE_SPACE = (
    *range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
    0x205F, 0x3000,
)  # fmt: skip
_MAX_CODE_POINTS = 0x110000
_PAGE = 256
_PADDING = 3  # bytes behind the text that may be looked at


def characters(data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Offsets int32 `[C]` and code points int32 `[C]` of the characters of UTF-8 `[N]` uint8.

    A byte that is not part of valid UTF-8 is a character of its own, with the code point
    0xDC00 + byte, as Python's `data.decode("utf-8", "surrogateescape")` has it.
    """
    every = tf.range(tf.size(data))
    return tf.cond(
        tf.reduce_any(data >= 0x80),
        lambda: _decode(data, every),
        lambda: (every, tf.cast(data, tf.int32)),
    )


def _decode(data: tf.Tensor, every: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    places = tf.where(data >= 0x80)[:, 0]  # [K], bytes outside ASCII
    padded = tf.cast(tf.pad(data, [[0, _PADDING]]), tf.int32)
    first, second, third, fourth = (tf.gather(padded, places + i) for i in range(4))  # [K]
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
    points = tf.where(is_four, four, 0xDC00 + first)
    points = tf.where(is_two, two, tf.where(is_three, three, points))
    points = tf.tensor_scatter_nd_update(padded[:-_PADDING], places[:, None], points)
    inside = tf.concat(
        [
            tf.boolean_mask(places, is_two | is_three | is_four) + 1,
            tf.boolean_mask(places, is_three | is_four) + 2,
            tf.boolean_mask(places, is_four) + 3,
        ],
        0,
    )
    begins = tf.tensor_scatter_nd_update(
        tf.ones_like(data, tf.bool), inside[:, None], tf.zeros_like(inside, tf.bool)
    )
    return tf.boolean_mask(every, begins), tf.boolean_mask(points, begins)


class GPT2Words:
    """Calling it with strings `[B]` gives `(data, starts, ends, row_splits)`.

    data: uint8 `[N]`, the strings, each with a byte behind it.
    starts, ends: int32 `[W]`, where in `data` the words begin and end. One empty word ends each
      string.
    row_splits: int64 `[B + 1]`, the words of each string.

    Bytes that are not UTF-8 count as marks (neither letter, digit nor white space).  Letters and
    digits are those of the Unicode version of the Python that makes the object.
    """

    def __init__(self):
        pages, numbers = np.unique(
            _kinds_of_characters().reshape(-1, _PAGE), axis=0, return_inverse=True
        )
        self._pages = tf.constant(pages.reshape(-1))  # [pages * 256]
        self._page_of = tf.constant(numbers.reshape(-1).astype(np.int32))  # [0x1100]
        self._begins = tf.constant(_beginnings())  # [6 * 6 * 6]

    def __call__(self, strings):
        row_ends = tf.cumsum(tf.strings.length(strings) + 1) - 1  # [B], of the bytes behind
        joined = tf.strings.reduce_join(tf.strings.join([strings, tf.constant(b"\0")]))
        data = tf.io.decode_raw(joined, tf.uint8)  # [N]
        offsets, points = characters(data)  # [C]
        page = tf.gather(self._page_of, points // _PAGE)
        kinds = tf.gather(self._pages, page * _PAGE + points % _PAGE)  # [C]
        ends_at = tf.searchsorted(offsets, row_ends)  # [B]
        kinds = tf.tensor_scatter_nd_update(
            kinds, ends_at[:, None], tf.fill(tf.shape(ends_at), np.int32(_END))
        )
        before = tf.concat([[_END], kinds[:-1]], 0)[: tf.size(kinds)]
        after = tf.concat([kinds[1:], [_END]], 0)[: tf.size(kinds)]
        begins = tf.gather(self._begins, (before * _KINDS + kinds) * _KINDS + after)  # [C]
        begins = _contractions(begins, before, points)
        places = tf.boolean_mask(tf.range(tf.size(kinds)), begins)
        starts = tf.gather(offsets, places)  # [W]
        is_end = tf.gather(kinds, places) == _END
        ends = tf.concat([starts[1:], tf.fill([1], tf.size(data))], 0)[: tf.size(starts)]
        ends = tf.where(is_end, starts, ends)
        row_splits = tf.concat([[0], tf.where(is_end)[:, 0] + 1], 0)
        return data, starts, ends, row_splits


def _contractions(begins, before, points):
    """`begins` without a word after a contraction's apostrophe, with one after its letters."""
    apostrophe = (points == ord("'")) & (before != _SPACE) & (before != _OTHER)
    places = tf.where(apostrophe)[:, 0]
    padded = tf.pad(points, [[0, 2]])
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
    """The kind of each code point, int32 `[0x110000]`."""
    kinds = {"L": _LETTER, "N": _DIGIT}
    table = np.array(
        [kinds.get(unicodedata.category(chr(i))[0], _OTHER) for i in range(_MAX_CODE_POINTS)],
        np.int32,
    )
    table[list(_WHITE_SPACE)] = _WHITE
    table[ord(" ")] = _SPACE
    return table


def _beginnings() -> np.ndarray:
    """Whether a word begins at a character, by the kinds of those before, here and after."""
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
