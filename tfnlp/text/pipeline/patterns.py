"""Patterns of a `tokenizer.json` that are found exactly by looking at characters alone."""

import re
from collections.abc import Mapping

import tensorflow as tf

from tfnlp.text.lines import shortened
from tfnlp.text.pipeline import library
from tfnlp.text.pipeline.characters import Table, before, last_place

_PROPERTY = r"\\[pP]\{\^?\w+\}"
_CLASS = "|".join(
    (
        r"\\[sSdDwWnrtfv]",
        _PROPERTY,
        rf"\[\^?(?:{_PROPERTY}|\\.|[^\\\[\]&])+\]",
        r"\\[^\w]",
        r"[^\\\[\](){}?*+.|^$]",
    )
)
_RUNS = re.compile(rf"({_CLASS})(\+|\{{(\d+),(\d*)\}})?")


class Pattern:
    """A string, or a regular expression for characters of one class or for runs of them.

    It is stated as `{"String": ...}` or `{"Regex": ...}`; messages name the part that has it.
    """

    def __init__(self, stated: Mapping[str, str], part: str) -> None:
        self._string = stated.get("String")
        if self._string is not None:
            string = self._string
            overlaps = any(string.startswith(string[i:]) for i in range(1, len(string)))
            if not string or (overlaps and set(string) != {string[0]}):
                raise NotExact(f"{part} of the string {string!r}")
            return
        regex = stated["Regex"]
        found = _RUNS.fullmatch(regex)
        if found is None:
            raise NotExact(f"{part} with the regular expression {regex!r}")
        one, repeated, least, most = found.groups()
        self._class = Table(library.regex_class(one))
        self._least = int(least) if least else 1
        self._most = int(most) if most else None if repeated else 1
        if self._least < 1 or (self._most or self._least) < self._least:
            raise NotExact(f"{part} with the regular expression {regex!r}")

    def find(self, chars: tf.Tensor, begins: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return where matches begin in characters `[N]`, and what is inside of them, bool `[N]`.

        None is across the beginnings of words, bool `[N]`.
        """
        if self._string is not None:
            return self._find_string(chars, begins)
        inside = self._class.of(chars)
        if self._most == 1:
            return inside, inside
        starts = inside & ~before(inside, begins)  # of runs
        every = tf.range(tf.size(chars, tf.int64))
        number = every - last_place(starts)
        if self._most is not None:
            starts = inside & (number % self._most == 0)
            number = every - last_place(starts)
        if self._least > 1:
            ends = tf.concat([begins[1:] | starts[1:] | ~inside[1:], [True]], 0)[: tf.size(inside)]
            long = tf.boolean_mask(number, ends & inside) >= self._least - 1  # [matches]
            which = tf.cumsum(tf.cast(starts, tf.int64)) - 1
            inside &= tf.gather(tf.concat([long, [False]], 0), tf.maximum(which, 0))
            starts &= inside
        return starts, inside

    def _find_string(self, chars: tf.Tensor, begins: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        length, size = len(self._string), tf.size(chars)
        padded = tf.pad(chars, [[0, length]], constant_values=-1)
        apart = tf.pad(begins, [[0, length]], constant_values=True)
        starts = tf.ones_like(begins)
        for i, char in enumerate(self._string):
            starts &= padded[i : size + i] == ord(char)
            if i:
                starts &= ~apart[i : size + i]
        if length > 1 and self._string[0] == self._string[-1]:  # of one character alone
            runs = starts & ~before(starts, begins)
            number = tf.range(tf.size(chars, tf.int64)) - last_place(runs)
            starts &= number % length == 0
        inside = starts
        for i in range(1, length):
            inside |= tf.pad(starts, [[i, 0]])[:size]
        return starts, inside


class NotExact(ValueError):
    """A part of a `tokenizer.json` that is not executed exactly; its text names the part."""

    def __init__(self, part: str) -> None:
        super().__init__(shortened(part, 200))
