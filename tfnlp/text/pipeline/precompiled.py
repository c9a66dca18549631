"""The table of a sentencepiece model, a normalizer of a `tokenizer.json`."""

import base64
import functools
import json
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.text.pipeline import library
from tfnlp.text.pipeline.characters import (
    FIRST_TOKEN,
    CharacterMap,
    Several,
    Table,
    Text,
    before,
    begins_of,
    keep,
    scattered,
)
from tfnlp.text.pipeline.patterns import NotExact
from tfnlp.text.pipeline.pieces import StaticTable

_MARKS = 0x20000  # no mark stands behind
_PAIR = 1 << 21  # more than there are code points
_PREPENDED = (
    *range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0xD4E, 0x110BD, 0x110CD, 0x111C2,
    0x111C3, 0x113D1, 0x1193F, 0x11941, 0x11A3A, *range(0x11A84, 0x11A8A), 0x11D46, 0x11F02,
)  # fmt: skip
_LONGEST_CLUSTER = 5  # bytes of a grapheme that is looked up whole


class Precompiled:
    """The table of a sentencepiece model, as the library applies it.

    A grapheme of less than six bytes becomes what its shortest beginning in the table becomes, the
    rest of it is dropped; else each character is replaced alone.
    """

    def __init__(self, step: Mapping[str, Any]) -> None:
        keys = _charsmap(base64.b64decode(step["precompiled_charsmap"] or b""))
        self._characters = CharacterMap(library.character_map(json.dumps(step)))
        known, extends, control = (np.zeros(FIRST_TOKEN, bool) for _ in range(3))
        known[[ord(key) for key in keys if len(key) == 1]] = True
        extends = library.extenders().copy()
        for point in range(_MARKS):
            control[point] = unicodedata.category(chr(point)) in ("Cc", "Cf", "Zl", "Zp", "Cs")
        control[0x2065] = control[0xFFF0:0xFFF9] = control[0xE0000:0xE1000] = True
        control &= ~extends
        prepended = np.zeros(FIRST_TOKEN, bool)
        prepended[list(_PREPENDED)] = True
        control[list(_PREPENDED)] = False
        kinds = known + 2 * extends + 4 * control + 8 * prepended
        self._kinds = Table(kinds.astype(np.int32))
        longer = {
            key: value
            for key, value in keys.items()
            if 1 < len(key) < 4
            and len(key.encode()) <= _LONGEST_CLUSTER
            and not any(key[:i] in keys for i in range(1, len(key)))
        }
        self._longer = Several([[ord(char) for char in value] for value in longer.values()])
        numbers = np.array([_key(*map(ord, key)) for key in longer], np.int64)
        self._places = StaticTable(numbers, np.arange(len(numbers), dtype=np.int32))

    def __call__(self, text: Text) -> Text:
        kinds, begins = self._kinds.of(text.chars), begins_of(text)
        known, extends, control, prepended = ((kinds & bit) > 0 for bit in (1, 2, 4, 8))
        line = before(text.chars == 0x0D, begins) & (text.chars == 0x0A)
        joined = (extends & ~before(control, begins)) | (before(prepended, begins) & ~control)
        joined = (joined | line) & ~begins

        def apply() -> Text:
            return self._characters.apply(self._clusters(text, joined, known))

        return tf.cond(tf.reduce_any(joined), apply, lambda: self._characters.apply(text))

    def _clusters(self, text: Text, joined: tf.Tensor, known: tf.Tensor) -> Text:
        """Return the text with the graphemes replaced that are looked up whole."""
        chars, size = text.chars, tf.size(text.chars, tf.int64)
        widths = 1 + sum(tf.cast(chars >= limit, tf.int64) for limit in (0x80, 0x800, 0x10000))
        begin = tf.where(~joined)[:, 0]
        count = tf.concat([begin[1:], [size]], 0)[: tf.size(begin)] - begin
        number = tf.cumsum(tf.cast(~joined, tf.int64)) - 1  # [N], of the grapheme
        bytes_ = tf.math.segment_sum(widths, number)
        whole = tf.where((count > 1) & (bytes_ <= _LONGEST_CLUSTER))[:, 0]
        begin, count = tf.gather(begin, whole), tf.gather(count, whole)
        padded = tf.pad(chars, [[0, 2]])
        own = [tf.cast(tf.gather(padded, begin + i), tf.int64) for i in range(3)]
        two, three = _key(*own[:2]), _key(*own)
        found_two, number_two = self._places.find(two)
        found_three, number_three = self._places.find(three)
        found_three &= count > 2
        single = tf.gather(known, begin)
        several = ~single & (found_two | found_three)
        which = tf.where(found_two, number_two, number_three)
        chars = tf.tensor_scatter_nd_update(
            chars,
            tf.boolean_mask(begin, several)[:, None],
            self._longer.number(tf.boolean_mask(which, several)),
        )
        dropped = tf.boolean_mask(tf.stack([begin, count], 1), single | several)
        rest = tf.ragged.range(dropped[:, 0] + 1, dropped[:, 0] + dropped[:, 1]).values
        chars, splits = keep(chars, ~scattered(size, rest), text.splits)
        text = text._replace(chars=chars, splits=splits)
        return self._longer.apply(text, chars) if self._longer.count else text


def _key(first: Any, second: Any, third: Any = 0) -> Any:
    return (first * _PAIR + second) * _PAIR + third


@functools.lru_cache(maxsize=4)
def _charsmap(table: bytes) -> dict[str, str]:
    """Return the keys of a table and what they become.

    The table is a trie of darts-clone: a unit holds a label, whether a key ends there, and how far
    the units after it are away. All keys of one length are followed at once.
    """
    size = int.from_bytes(table[:4], "little")
    units = np.frombuffer(table[4 : 4 + size], "<u4").astype(np.int64)
    texts = table[4 + size :]
    found: dict[str, str] = {}
    labels = units & 0x800000FF
    inner = np.flatnonzero((labels > 0) & (labels < 256))  # not the values
    parents = inner ^ labels[inner]
    inner = inner[np.argsort(parents, kind="stable")]
    parents = np.sort(parents)
    keys, nodes = [b""], np.zeros(min(len(units), 1), np.int64)
    followed = 0
    while len(nodes):
        followed += len(nodes)
        if followed > 64 * len(units):  # whose parts may stand for several keys
            raise NotExact("normalizer Precompiled whose table leads in a circle")
        own = units[nodes]
        nodes ^= (own >> 10) << ((own & 1 << 9) >> 6)
        for i in np.flatnonzero(own & 1 << 8):
            if keys[i]:
                begin = int(units[nodes[i]]) & 0x7FFFFFFF
                found[keys[i].decode()] = texts[begin : texts.index(b"\0", begin)].decode()
        first, last = (np.searchsorted(parents, nodes, side) for side in ("left", "right"))
        counts = last - first
        which = np.repeat(np.arange(len(nodes)), counts)
        rank = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        nodes = inner[first[which] + rank]
        keys = [keys[i] + bytes([k]) for i, k in zip(which, labels[nodes], strict=True)]
    return found
