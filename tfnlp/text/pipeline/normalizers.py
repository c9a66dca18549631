"""The normalizers of a `tokenizer.json` as functions of a `Text`, in the TensorFlow graph."""

import functools
import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    begins_of,
    insert,
    keep,
    last_place,
)
from tfnlp.text.pipeline.patterns import NotExact, Pattern
from tfnlp.text.pipeline.pieces import StaticTable
from tfnlp.text.pipeline.precompiled import Precompiled

Step = Mapping[str, Any]
Normalizer = Callable[[Text], Text]

# Each character alone, one after the other: several such steps are one table.
_ALONE = ("BertNormalizer", "ByteLevel", "Lowercase", "NFD", "NFKD", "Nmt", "StripAccents")
_MARKS = 0x20000  # no mark and no composed character stands behind
_PAIR = 1 << 21  # more than there are code points


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
        self._compositions = StaticTable(keys, np.array(list(pairs.values()), np.int32))

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
            composes, new = self._compositions.find(key)
            taken = (to >= 0) & (blocked < own) & composes
            new = tf.boolean_mask(new, taken)
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
    "Precompiled": Precompiled,
    "Prepend": _prepend,
    "Replace": _replace,
    "Strip": _strip,
}
