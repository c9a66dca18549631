"""The pre-tokenizers of a `tokenizer.json`: texts to words, in the TensorFlow graph."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfnlp.text.gpt2_tokenizer import byte_characters
from tfnlp.text.pipeline import library
from tfnlp.text.pipeline.characters import (
    FIRST_TOKEN,
    Table,
    Text,
    before,
    begins_of,
    insert,
    keep,
    utf8,
)
from tfnlp.text.pipeline.normalizers import steps_of
from tfnlp.text.pipeline.patterns import GPT2, NotExact, Pattern, is_gpt2


class Words(NamedTuple):
    """The words of texts.

    Attributes:
        chars: int32 `[N]`.
        begins: bool `[N]`, whether a word begins at the character.
        splits: int64 `[S + 1]`, of the sections.
        first: bool `[S]`, as in `Text`.
    """

    chars: tf.Tensor
    begins: tf.Tensor
    splits: tf.Tensor
    first: tf.Tensor


Splitter = Callable[[Words], Words]
Step = Mapping[str, Any]


def words_of(text: Text) -> Words:
    """Return each section as a word."""
    return Words(text.chars, begins_of(text), text.splits, text.first)


def make_splitters(part: Any) -> list[Splitter]:
    """Return the functions of a `pre_tokenizer`, in their order."""
    made = []
    for step in steps_of(part, "pretokenizers"):
        if step["type"] not in _MAKERS:
            raise NotExact(f"pre_tokenizer {step['type']}")
        made.append(_MAKERS[step["type"]](step))
    return made


def _cut(words: Words, matches: tf.Tensor, starts: tf.Tensor, behavior: str) -> Words:
    """Return words that are also cut at matches.

    Args:
        words: `[N]` characters.
        matches: bool `[N]`, whether a character is of a match.
        starts: bool `[N]`, whether a match, or what stands between two, begins there.
        behavior: what becomes of matches.
    """
    tokens = words.chars >= FIRST_TOKEN
    matches &= ~tokens
    begins, after = words.begins, before(matches, words.begins)
    if behavior == "Removed":
        begins |= starts
        kept = ~matches
        chars, splits = keep(words.chars, kept, words.splits)
        # The first characters of a section may be gone.
        at = tf.gather(tf.concat([kept, [True]], 0), words.splits[:-1])
        begins = tf.boolean_mask(begins | before(matches, tf.zeros_like(begins)), kept)
        return Words(chars, begins, splits, words.first & at)
    if behavior == "Isolated":
        begins |= starts
    elif behavior == "Contiguous":
        begins |= matches != after
    elif behavior == "MergedWithPrevious":
        begins |= starts & ~(matches & ~after)
    else:
        begins |= starts & matches
    return words._replace(begins=begins)


def _cut_at(words: Words, flags: Table, behavior: str) -> Words:
    """Return words that are also cut at each character of a table."""
    matches = flags.of(words.chars)
    return _cut(words, matches, matches | before(matches, words.begins), behavior)


def _bert(step: Step) -> Splitter:
    spaces, punctuation = Table(library.spaces()), Table(library.punctuation())
    return lambda words: _cut_at(_cut_at(words, spaces, "Removed"), punctuation, "Isolated")


def _of_class(flags: Callable[[], np.ndarray], behavior: str | None) -> Callable[[Step], Splitter]:
    def make(step: Step) -> Splitter:
        table, how = Table(flags()), behavior or step["behavior"]
        return lambda words: _cut_at(words, table, how)

    return make


def _digits(step: Step) -> Splitter:
    table = Table(library.digits())
    how = "Isolated" if step["individual_digits"] else "Contiguous"
    return lambda words: _cut_at(words, table, how)


def _delimiter(step: Step) -> Splitter:
    flags = np.zeros(FIRST_TOKEN, bool)
    flags[ord(step["delimiter"])] = True
    table = Table(flags)
    return lambda words: _cut_at(words, table, "Removed")


def _whitespace(step: Step) -> Splitter:
    """Cut into runs of word characters and runs of others, without white space."""
    spaces = library.spaces()
    kinds = Table((1 + library.word_characters() + 2 * spaces).astype(np.int32))

    def split(words: Words) -> Words:
        kind = kinds.of(words.chars)
        changes = tf.concat([[True], kind[1:] != kind[:-1]], 0)[: tf.size(kind)] | words.begins
        return _cut(words, kind >= 3, changes, "Removed")

    return split


def _split(step: Step) -> Splitter:
    behavior, invert = step["behavior"], step["invert"]
    if is_gpt2(step["pattern"]):
        if behavior == "Removed" and not invert:
            raise NotExact(f"pre_tokenizer Split that removes all of {GPT2!r}")
        cut = _Gpt2()
        matched = not invert

        def split_words(words: Words) -> Words:
            starts = cut.begins(words)
            matches = tf.fill(tf.shape(words.chars), matched)
            return _cut(words, matches, starts, behavior)

        return split_words
    pattern = Pattern(step["pattern"], "pre_tokenizer Split")

    def split(words: Words) -> Words:
        begins, inside = pattern.find(words.chars, words.begins)
        starts = begins | (~inside & before(inside, words.begins))
        return _cut(words, inside != invert, starts, behavior)

    return split


def _metaspace(step: Step) -> Splitter:
    mark = ord(step["replacement"])
    scheme = step.get("prepend_scheme", "always")
    if step.get("add_prefix_space") is False:
        scheme = "never"

    def split(words: Words) -> Words:
        words = words._replace(chars=tf.where(words.chars == 0x20, mark, words.chars))
        if scheme != "never":
            at = words.begins & (words.chars != mark)
            if scheme == "first":
                full = words.splits[1:] > words.splits[:-1]
                starts = tf.boolean_mask(words.splits[:-1], words.first & full)
                at &= tf.tensor_scatter_nd_update(
                    tf.zeros_like(at), starts[:, None], tf.ones_like(starts, tf.bool)
                )
            words = _prefixed(words, at, mark)
        if step.get("split", True):
            words = words._replace(begins=words.begins | (words.chars == mark))
        return words

    return split


def _prefixed(words: Words, at: tf.Tensor, char: int) -> Words:
    """Return the words with a character before those that begin where `at` `[N]` holds."""
    at &= words.chars < FIRST_TOKEN

    def put() -> Words:
        chars, places = insert(words.chars, at, [char])
        own = tf.boolean_mask(places - tf.cast(at, tf.int64), words.begins)
        begins = tf.tensor_scatter_nd_update(
            tf.zeros_like(chars, tf.bool), own[:, None], tf.ones_like(own, tf.bool)
        )
        starts = tf.concat([places - tf.cast(at, tf.int64), [tf.size(chars, tf.int64)]], 0)
        return Words(chars, begins, tf.gather(starts, words.splits), words.first)

    return tf.cond(tf.reduce_any(at), put, lambda: words)


class _Gpt2:
    """The words of GPT-2's regular expression (see `tfnlp.text.gpt2_words`), of characters."""

    _KINDS = 5  # a word's end or beginning, letter, digit, other, white space; and the space

    def __init__(self) -> None:
        kinds = np.full(FIRST_TOKEN, 3, np.int32)
        kinds[library.regex_class(r"\p{L}")] = 1
        kinds[library.regex_class(r"\p{N}")] = 2
        kinds[library.regex_class(r"\s")] = 4
        kinds[0x20] = 5
        self._kinds = Table(kinds)

    def begins(self, words: Words) -> tf.Tensor:
        """Return whether a word begins at each character, bool `[N]`."""
        chars, begins = words.chars, words.begins
        kinds = self._kinds.of(chars)
        left = tf.where(begins, 0, tf.concat([[0], kinds[:-1]], 0)[: tf.size(kinds)])
        ends = tf.concat([begins[1:], [True]], 0)[: tf.size(kinds)]
        right = tf.where(ends, 0, tf.concat([kinds[1:], [0]], 0)[: tf.size(kinds)])
        white, white_left, white_right = kinds >= 4, left >= 4, right >= 4
        begin = tf.where(white, ~white_left | ~(white_right | ends), (left != kinds) & (left != 5))
        return self._contractions(begin | begins, left, chars, ends)

    def _contractions(
        self, begin: tf.Tensor, left: tf.Tensor, chars: tf.Tensor, ends: tf.Tensor
    ) -> tf.Tensor:
        """Return `begin` with 's, 't, 're, 've, 'm, 'll and 'd as words."""

        def cut() -> tf.Tensor:
            # An apostrophe that begins a word and follows no space.
            places = tf.where((chars == 0x27) & (left != 5) & (left != 3) & ~ends)[:, 0]
            size = tf.size(chars, tf.int64)
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
            on = tf.boolean_mask(on, on < size)
            updates = tf.concat([tf.zeros_like(off, tf.bool), tf.ones_like(on, tf.bool)], 0)
            return tf.tensor_scatter_nd_update(begin, tf.concat([off, on], 0)[:, None], updates)

        return tf.cond(tf.reduce_any(chars == 0x27), cut, lambda: begin)


def _byte_level(step: Step) -> Splitter:
    cut = _Gpt2() if step.get("use_regex", True) else None
    alphabet = tf.constant([ord(char) for char in byte_characters()])

    def split(words: Words) -> Words:
        if step["add_prefix_space"]:
            words = _prefixed(words, words.begins & (words.chars != 0x20), 0x20)
        if cut is not None:
            words = words._replace(begins=cut.begins(words))
        return _bytes(words, alphabet)

    return split


def _bytes(words: Words, alphabet: tf.Tensor) -> Words:
    """Return the words of the characters that stand for the bytes of their UTF-8."""
    chars = words.chars
    is_text = chars < FIRST_TOKEN

    def several() -> Words:
        value, of, place = utf8(chars, is_text)
        token = value >= FIRST_TOKEN
        value = tf.where(token, value, tf.gather(alphabet, tf.where(token, 0, value)))
        begins = tf.gather(words.begins, of) & (place == 0)
        starts = tf.concat([tf.where(place == 0)[:, 0], [tf.size(of, tf.int64)]], 0)
        splits = tf.gather(starts, words.splits)
        return Words(value, begins, splits, words.first)

    def alone() -> Words:
        value = tf.gather(alphabet, tf.where(is_text, chars, 0))
        return words._replace(chars=tf.where(is_text, value, chars))

    return tf.cond(tf.reduce_any((chars >= 0x80) & is_text), several, alone)


_MAKERS: dict[str, Callable[[Step], Splitter]] = {
    "BertPreTokenizer": _bert,
    "ByteLevel": _byte_level,
    "CharDelimiterSplit": _delimiter,
    "Digits": _digits,
    "Metaspace": _metaspace,
    "Punctuation": _of_class(library.punctuation, None),
    "Split": _split,
    "Whitespace": _whitespace,
    "WhitespaceSplit": _of_class(library.spaces, "Removed"),
}
