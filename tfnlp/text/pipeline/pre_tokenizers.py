"""The pre-tokenizers of a `tokenizer.json`: texts to words, in the TensorFlow graph."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfnlp.text.pipeline import library
from tfnlp.text.pipeline.characters import (
    FIRST_TOKEN,
    Table,
    Text,
    before,
    begins_of,
    insert,
    keep,
    scattered,
    utf8,
)
from tfnlp.text.pipeline.gpt2_words import PATTERN, Gpt2Words, byte_characters, kinds_of_library
from tfnlp.text.pipeline.normalizers import steps_of
from tfnlp.text.pipeline.patterns import NotExact, Pattern


class Words(NamedTuple):
    """The words of texts."""

    chars: tf.Tensor  # int32 [N]
    begins: tf.Tensor  # bool [N], whether a word begins at the character
    splits: tf.Tensor  # int64 [S + 1], of the sections
    first: tf.Tensor  # bool [S], as in `Text`


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

    `matches` are their characters, and `starts` where one, or what stands between two, begins.
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
    if step["pattern"].get("Regex") == PATTERN:
        if behavior == "Removed" and not invert:
            raise NotExact(f"pre_tokenizer Split that removes all of {PATTERN!r}")
        cut = Gpt2Words(kinds_of_library())
        matched = not invert

        def split_words(words: Words) -> Words:
            starts = cut.begins(words.chars, words.begins)
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
                at &= scattered(tf.size(at), starts)
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
        begins = scattered(tf.size(chars), own)
        starts = tf.concat([places - tf.cast(at, tf.int64), [tf.size(chars, tf.int64)]], 0)
        return Words(chars, begins, tf.gather(starts, words.splits), words.first)

    return tf.cond(tf.reduce_any(at), put, lambda: words)


def _byte_level(step: Step) -> Splitter:
    cut = Gpt2Words(kinds_of_library()) if step.get("use_regex", True) else None
    alphabet = tf.constant([ord(char) for char in byte_characters()])

    def split(words: Words) -> Words:
        if step["add_prefix_space"]:
            words = _prefixed(words, words.begins & (words.chars != 0x20), 0x20)
        if cut is not None:
            words = words._replace(begins=cut.begins(words.chars, words.begins))
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
