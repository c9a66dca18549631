r"""GPT-2's words, and the characters that stand for bytes in its vocabularies.

The published pattern (`encoder.py` of openai/gpt-2) is

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

TensorFlow's regular expressions lack the look-ahead `(?!\S)` and take longer than all the rest of
tokenizing. But three neighbouring characters decide whether a word begins at the middle one:

- at a letter, digit or other mark: where the kind of character changes, unless a space precedes,
  which then begins the word;
- at white space: where a run of it begins, and at its last character if something follows;
- an apostrophe that begins a word and is followed by s, t, re, ve, m, ll or d forms one word with
  these letters.
"""

import functools
import unicodedata

import numpy as np
import tensorflow as tf

from tfnlp.text.pipeline import library
from tfnlp.text.pipeline.characters import FIRST_TOKEN, Table, outside_ascii, scattered

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# Kinds of characters; what ends a text is of none.
_NONE, _LETTER, _DIGIT, _OTHER, _WHITE, _SPACE = range(6)
_WHITE_SPACE = (
    *range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
    0x205F, 0x3000,
)  # fmt: skip


def kinds_of_library() -> np.ndarray:
    """Return the kind of each code point as the tokenizers library has it, int32 `[0x110000]`."""
    classes = (library.regex_class(one) for one in (r"\p{L}", r"\p{N}", r"\s"))
    return _kinds(*classes)


@functools.cache
def kinds_of_python() -> np.ndarray:
    """Return the kind of each code point as this Python has it, int32 `[0x110000]`."""
    categories = np.array([unicodedata.category(chr(i))[0] for i in range(FIRST_TOKEN)])
    return _kinds(categories == "L", categories == "N", list(_WHITE_SPACE))


def _kinds(letters: np.ndarray, digits: np.ndarray, white: np.ndarray | list[int]) -> np.ndarray:
    kinds = np.full(FIRST_TOKEN, _OTHER, np.int32)
    kinds[letters], kinds[digits], kinds[white], kinds[0x20] = _LETTER, _DIGIT, _WHITE, _SPACE
    return kinds


class Gpt2Words:
    """Where words begin, by the kinds of code points."""

    def __init__(self, kinds: np.ndarray) -> None:
        self._kinds = Table(kinds)

    def begins(self, chars: tf.Tensor, begins: tf.Tensor) -> tf.Tensor:
        """Return where words begin, and so does what is cut, bool `[N]`."""
        kinds, size = self._kinds.of(chars), tf.size(chars)
        ends = tf.concat([begins[1:], [True]], 0)[:size]
        left = tf.where(begins, _NONE, tf.concat([[_NONE], kinds[:-1]], 0)[:size])
        right = tf.where(ends, _NONE, tf.concat([kinds[1:], [_NONE]], 0)[:size])
        return begins | _begins(left, kinds, right, chars)


def _begins(left: tf.Tensor, kinds: tf.Tensor, right: tf.Tensor, chars: tf.Tensor) -> tf.Tensor:
    """Return where words begin by the kinds of characters and their neighbours `[N]`."""
    white, ends = kinds >= _WHITE, right == _NONE
    last_white = (left < _WHITE) | ((right < _WHITE) & ~ends)
    begin = (white & last_white) | (~white & (left != kinds) & (left != _SPACE))
    return tf.cond(
        tf.reduce_any(chars == ord("'")),
        lambda: _with_contractions(begin, left, chars, ends),
        lambda: begin,
    )


def _with_contractions(
    begin: tf.Tensor, left: tf.Tensor, chars: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """Return `begin` with 's, 't, 're, 've, 'm, 'll and 'd as words."""
    # An apostrophe that begins a word and follows no space.
    places = tf.where((chars == ord("'")) & (left != _SPACE) & (left != _OTHER) & ~ends)[:, 0]
    padded = tf.pad(chars, [[0, 2]])
    one, two = tf.gather(padded, places + 1), tf.gather(padded, places + 2)
    whole = ~tf.gather(tf.pad(ends, [[0, 2]], constant_values=True), places + 1)
    short, long = tf.zeros_like(whole), tf.zeros_like(whole)
    for letter in "stmd":
        short |= one == ord(letter)
    for first, second in ("re", "ve", "ll"):
        long |= (one == ord(first)) & (two == ord(second)) & whole
    short, long = tf.boolean_mask(places, short), tf.boolean_mask(places, long)
    off = tf.concat([short, long], 0) + 1
    on = tf.concat([short + 2, long + 3], 0)
    on = tf.boolean_mask(on, on < tf.size(chars, tf.int64))
    updates = tf.concat([tf.zeros_like(off, tf.bool), tf.ones_like(on, tf.bool)], 0)
    return tf.tensor_scatter_nd_update(begin, tf.concat([off, on], 0)[:, None], updates)


class WordBytes:
    """GPT-2's words in the bytes of strings; bytes that are not UTF-8 count as marks.

    The kinds of code points are those of Python if they are not given.
    """

    def __init__(self, kinds: np.ndarray | None = None) -> None:
        kinds = (kinds_of_python() if kinds is None else kinds).astype(np.uint8)
        self._kinds = Table(kinds)
        self._of_bytes = tf.constant(np.where(np.arange(256) < 0x80, kinds[:256], _OTHER))

    def cut(self, strings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the bytes of strings `[B]`, each followed by another, uint8 `[N]`.

        Also where words begin and end among them, int64 `[W]`, and the splits of strings `[B + 1]`.
        """
        joined = tf.strings.reduce_join(tf.strings.join([strings, tf.constant(b"\0")]))
        data = tf.io.decode_raw(joined, tf.uint8)
        ends = tf.cumsum(tf.cast(tf.strings.length(strings), tf.int64) + 1) - 1  # [B]
        starts = tf.where(self._begins(data, ends))[:, 0]
        splits = tf.concat([[0], tf.searchsorted(starts, ends, out_type=tf.int64)], 0)
        stops = tf.concat([starts[1:], ends[-1:]], 0)[: tf.size(starts)]
        full = tf.where(splits[1:] > splits[:-1])[:, 0]
        last = tf.gather(splits, full + 1) - 1  # word of its string
        stops = tf.tensor_scatter_nd_update(stops, last[:, None], tf.gather(ends, full))
        return data, starts, stops, splits

    def _begins(self, data: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Return whether a word begins at each byte, bool `[N]`."""
        kinds = tf.gather(self._of_bytes, tf.cast(data, tf.int32))
        none = tf.fill(tf.shape(ends), tf.constant(_NONE, tf.uint8))
        kinds = tf.tensor_scatter_nd_update(kinds, ends[:, None], none)
        # All bytes of a character have its kind, and no word begins between equal kinds.
        places, points, widths = outside_ascii(data)
        valid = tf.where(widths > 1)[:, 0]
        found = self._kinds.of(tf.gather(points, valid))
        first, width = tf.gather(places, valid), tf.cast(tf.gather(widths, valid), tf.int64)
        every = tf.ragged.range(first, first + width).values
        kinds = tf.tensor_scatter_nd_update(kinds, every[:, None], tf.repeat(found, width))
        left = tf.concat([[_NONE], kinds[:-1]], 0)
        right = tf.concat([kinds[1:], [_NONE]], 0)
        begins = _begins(left, kinds, right, data) & (kinds > _NONE)
        # But white space before something else is a word; it begins at its first byte.
        white = tf.where(found == _WHITE)[:, 0]
        first, last = tf.gather(first, white), tf.gather(first + width - 1, white)
        is_last = tf.gather(begins, first) | tf.gather(begins, last)
        begins &= ~scattered(tf.size(data), last)
        return tf.tensor_scatter_nd_update(begins, first[:, None], is_last)


def byte_characters() -> list[str]:
    """Return the character that stands for each byte in byte-level vocabularies.

    Printable Latin-1 characters stand for themselves, the other 68 bytes get U+0100 and on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(i) if i in printable else chr(next(others)) for i in range(256)]


_BYTE_OF = {char: i for i, char in enumerate(byte_characters())}


def bytes_of(word: str) -> bytes | None:
    """Return the bytes that a word of byte-level characters stands for; None if it has others."""
    return bytes(map(_BYTE_OF.get, word)) if _BYTE_OF.keys() >= set(word) else None


def token_bytes(token: str) -> bytes:
    """Return the bytes that a byte-level token stands for; other tokens stand for themselves."""
    found = bytes_of(token)
    return token.encode() if found is None else found
