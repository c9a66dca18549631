"""The normalizers of a `tokenizer.json` as functions of a `Text`, in the TensorFlow graph."""

import base64
import functools
import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.text.byte_pairs import StaticTable
from tfnlp.text.pipeline import library
from tfnlp.text.pipeline.characters import (
    FIRST_TOKEN,
    CharacterMap,
    Several,
    Table,
    Text,
    before,
    begins_of,
    insert,
    keep,
    last_place,
)
from tfnlp.text.pipeline.patterns import NotExact, Pattern

Step = Mapping[str, Any]
Normalizer = Callable[[Text], Text]

# Each character alone, one after the other: several such steps are one table.
_ALONE = ("BertNormalizer", "ByteLevel", "Lowercase", "NFD", "NFKD", "Nmt", "StripAccents")
_MARKS = 0x20000  # no mark and no composed character stands behind
_PAIR = 1 << 21  # more than there are code points
_PREPENDED = (
    *range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0xD4E, 0x110BD, 0x110CD, 0x111C2,
    0x111C3, 0x113D1, 0x1193F, 0x11941, 0x11A3A, *range(0x11A84, 0x11A8A), 0x11D46, 0x11F02,
)  # fmt: skip
_LONGEST_CLUSTER = 5  # bytes of a grapheme that is looked up whole


def steps_of(part: Any, several: str) -> Iterator[Step]:
    """Yield the steps of a part, those of a `Sequence` one by one."""
    if not isinstance(part, Mapping):
        return
    if part.get("type") == "Sequence":
        for step in part[several]:
            yield from steps_of(step, several)
    else:
        yield part


def make_normalizers(part: Any) -> list[Normalizer]:
    """Return the functions of a `normalizer`, in their order."""
    made: list[Normalizer] = []
    alone: list[Step] = []

    def end() -> None:
        if alone:
            made.append(_of_characters(alone))
            alone.clear()

    for step in steps_of(part, "normalizers"):
        if step["type"] in _ALONE or _replaces_characters(step):
            alone.append(step)
            continue
        end()
        if step["type"] not in _MAKERS:
            raise NotExact(f"normalizer {step['type']}")
        made.append(_MAKERS[step["type"]](step))
    end()
    return made


def _replaces_characters(step: Step) -> bool:
    """Return whether a step replaces a single character wherever it stands."""
    return step["type"] == "Replace" and len(step["pattern"].get("String", "")) == 1


def _of_characters(steps: Sequence[Step]) -> Normalizer:
    step = {"type": "Sequence", "normalizers": list(steps)}
    characters = CharacterMap(library.character_map(json.dumps(step)))
    decomposes = any(
        s["type"] in ("NFD", "NFKD")
        or (s["type"] == "BertNormalizer" and (s["strip_accents"] or s["lowercase"]))
        for s in steps
    )
    if not decomposes:
        return characters.apply
    classes = Table(_combining_classes())

    def apply(text: Text) -> Text:
        text = characters.apply(text)
        return _ordered(text, classes.of(text.chars))

    return apply


@functools.cache
def _combining_classes() -> np.ndarray:
    """Return the canonical combining class of each character that the library knows, uint8."""
    last = 240  # the largest class, of U+0345
    spelled = library.normalized_spelling("NFD")
    classes = np.zeros(FIRST_TOKEN, np.uint8)
    for point in (i for i in range(_MARKS) if unicodedata.combining(chr(i))):
        char = chr(point)
        if point == 0x345 or not spelled("a\u0345" + char).startswith("a\u0345"):
            classes[point] = unicodedata.combining(char)
    assert classes.max() == last
    return classes


def _ordered(text: Text, classes: tf.Tensor) -> Text:
    """Return the text with marks that follow each other in the order of their classes."""
    begins = begins_of(text)

    def ordered() -> tf.Tensor:
        marks = tf.where(classes > 0)[:, 0]
        own = tf.cast(tf.gather(classes, marks), tf.int64)
        of = tf.gather(tf.cumsum(tf.cast((classes == 0) | begins, tf.int64)), marks)
        order = tf.argsort(of * 256 + own, stable=True)
        moved = tf.gather(text.chars, tf.gather(marks, order))
        return tf.tensor_scatter_nd_update(text.chars, marks[:, None], moved)

    wrong = (classes[1:] > 0) & (classes[1:] < classes[:-1]) & ~begins[1:]
    chars = tf.cond(tf.reduce_any(wrong), ordered, lambda: text.chars)
    return text._replace(chars=chars)


class _Composed:
    """NFC and NFKC: characters are decomposed, ordered and composed again.

    A text of which no character changes alone, is a mark with a class, or is the second one of a
    composition stays as it is.
    """

    def __init__(self, step: Step) -> None:
        form = step["type"]
        alone = library.character_map(json.dumps(step))
        decomposed = library.character_map(json.dumps({"type": form.replace("C", "D")}))
        pairs = _compositions()
        classes = _combining_classes()
        flagged = (classes > 0) | (alone.differences != 0)
        flagged[[second for _, second in pairs]] = True
        follows = classes > 0
        follows[[second for _, second in pairs]] = True
        self._flagged, self._follows = Table(flagged), Table(follows)
        self._characters = CharacterMap(decomposed)
        self._classes = Table(classes)
        keys = np.array([a * _PAIR + b for a, b in pairs], np.int64)
        self._table = StaticTable(keys)
        stored, results = np.full(self._table.size, -1), np.zeros(self._table.size, np.int32)
        stored[self._table.slots], results[self._table.slots] = keys, list(pairs.values())
        self._keys, self._results = tf.constant(stored), tf.constant(results)

    def __call__(self, text: Text) -> Text:
        def apply() -> Text:
            split = self._characters.apply(text)
            return self._compose(_ordered(split, self._classes.of(split.chars)))

        flagged = tf.reduce_any(self._flagged.of(text.chars))
        return tf.cond(flagged, apply, lambda: text)

    def _compose(self, text: Text) -> Text:
        """Compose each character with the marks after it, one after the other."""
        chars, size = text.chars, tf.size(text.chars, tf.int64)
        classes = tf.cast(self._classes.of(chars), tf.int32)
        starts = ~self._follows.of(chars) | begins_of(text)  # of clusters
        begin = tf.where(starts)[:, 0]  # [C]
        length = tf.concat([begin[1:], [size]], 0)[: tf.size(begin)] - begin
        some = tf.where(length > 1)[:, 0]
        begin, length = tf.gather(begin, some), tf.gather(length, some)
        order = tf.argsort(-length, stable=True)
        begin, length = tf.gather(begin, order), tf.gather(length, order)
        longest = tf.reduce_max(tf.concat([length, [0]], 0))
        # Of each cluster: the place of the character that takes marks, or -1, and the class of the
        # last mark that it did not take, or -1.
        base = tf.where(tf.gather(classes, begin) == 0, begin, -1)
        last = tf.fill(tf.shape(begin), -1)

        def step(
            i: tf.Tensor, chars: tf.Tensor, kept: tf.Tensor, base: tf.Tensor, last: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            active = tf.where(length > i)[:, 0]
            place, to = tf.gather(begin, active) + i, tf.gather(base, active)
            char, own = tf.gather(chars, place), tf.gather(classes, place)
            blocked = tf.gather(last, active)
            first = tf.gather(chars, tf.maximum(to, 0))
            key = tf.cast(first, tf.int64) * _PAIR + tf.cast(char, tf.int64)
            slot = self._table.find(key)
            taken = (to >= 0) & (blocked < own) & (tf.gather(self._keys, slot) == key)
            new = tf.boolean_mask(tf.gather(self._results, slot), taken)
            places = tf.boolean_mask(to, taken)[:, None]
            chars = tf.tensor_scatter_nd_update(chars, places, new)
            gone = tf.boolean_mask(place, taken)[:, None]
            kept = tf.tensor_scatter_nd_update(kept, gone, tf.zeros_like(gone[:, 0], tf.bool))
            is_base = ~taken & (own == 0)
            to = tf.where(is_base, place, to)
            blocked = tf.where(taken, blocked, tf.where(is_base, -1, own))
            base = tf.tensor_scatter_nd_update(base, active[:, None], to)
            last = tf.tensor_scatter_nd_update(last, active[:, None], blocked)
            return i + 1, chars, kept, base, last

        _, chars, kept, _, _ = tf.while_loop(
            lambda i, *_: i < longest,
            step,
            (tf.constant(1, tf.int64), chars, tf.ones_like(chars, tf.bool), base, last),
        )
        chars, splits = keep(chars, kept, text.splits)
        return text._replace(chars=chars, splits=splits)


@functools.cache
def _compositions() -> dict[tuple[int, int], int]:
    """Return which pairs of characters the library composes, and into what."""
    spelled = library.normalized_spelling("NFC")
    pairs = {}
    for point in range(_MARKS):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and "<" not in parts[0]:
            first, second = (int(part, 16) for part in parts)
            if spelled(chr(first) + chr(second)) == chr(point):
                pairs[first, second] = point
    for syllable in range(0xAC00, 0xD7A4):
        last = (syllable - 0xAC00) % 28
        if last:
            pairs[syllable - last, 0x11A7 + last] = syllable
        else:
            number = (syllable - 0xAC00) // 28
            pairs[0x1100 + number // 21, 0x1161 + number % 21] = syllable
    return pairs


class _Precompiled:
    """The table of a sentencepiece model, as the library applies it.

    A grapheme of less than six bytes becomes what its shortest beginning in the table becomes, the
    rest of it is dropped; else each character is replaced alone.
    """

    def __init__(self, step: Step) -> None:
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
        self._table = StaticTable(numbers)
        stored, which = np.full(self._table.size, -1), np.zeros(self._table.size, np.int32)
        stored[self._table.slots], which[self._table.slots] = numbers, np.arange(len(numbers))
        self._stored, self._which = tf.constant(stored), tf.constant(which)

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
        found_two, number_two = self._find(two)
        found_three, number_three = self._find(three)
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
        kept = tf.tensor_scatter_nd_update(
            tf.ones([size], tf.bool), rest[:, None], tf.zeros_like(rest, tf.bool)
        )
        chars, splits = keep(chars, kept, text.splits)
        text = text._replace(chars=chars, splits=splits)
        return self._longer.apply(text, chars) if self._longer.count else text

    def _find(self, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        slots = self._table.find(keys)
        return tf.gather(self._stored, slots) == keys, tf.gather(self._which, slots)


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


def _strip(step: Step) -> Normalizer:
    spaces = Table(library.spaces())

    def apply(text: Text) -> Text:
        kept = ~spaces.of(text.chars)
        begins = begins_of(text)
        if step["strip_left"]:
            left = last_place(kept) >= last_place(begins)
        else:
            left = tf.ones_like(kept)
        right = tf.ones_like(kept)
        if step["strip_right"]:
            ends = tf.concat([begins[1:], [True]], 0)[: tf.size(begins)]
            right = (last_place(kept[::-1]) >= last_place(ends[::-1]))[::-1]
        at = tf.gather(tf.concat([left, [True]], 0), text.splits[:-1])
        chars, splits = keep(text.chars, left & right, text.splits)
        return text._replace(chars=chars, splits=splits, first=text.first & at)

    return apply


def _prepend(step: Step) -> Normalizer:
    content = [ord(char) for char in step["prepend"]]

    def apply(text: Text) -> Text:
        at = begins_of(text) & (text.chars < FIRST_TOKEN)
        chars, places = insert(text.chars, at, content)
        places = tf.concat([places, [tf.size(chars, tf.int64)]], 0)
        added = tf.concat([tf.cast(at, tf.int64), [0]], 0)
        splits = tf.gather(places - added * len(content), text.splits)
        return text._replace(chars=chars, splits=splits)

    return apply


def _replace(step: Step) -> Normalizer:
    pattern = Pattern(step["pattern"], "normalizer Replace")
    content = Several([[ord(char) for char in step["content"]]])

    def apply(text: Text) -> Text:
        starts, inside = pattern.find(text.chars, begins_of(text))

        def replaced() -> Text:
            chars = tf.where(starts, content.number(0), text.chars)
            chars, splits = keep(chars, starts | ~inside, text.splits)
            return content.apply(text._replace(chars=chars, splits=splits), chars)

        return tf.cond(tf.reduce_any(inside), replaced, lambda: text)

    return apply


_MAKERS: dict[str, Callable[[Step], Normalizer]] = {
    "NFC": _Composed,
    "NFKC": _Composed,
    "Precompiled": _Precompiled,
    "Prepend": _prepend,
    "Replace": _replace,
    "Strip": _strip,
}
