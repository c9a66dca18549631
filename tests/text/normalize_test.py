import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from tests.text import reference
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer
from tfnlp.text.wordpiece import CASED_WORD, SPLITTING, UNCASED_WORD

# Characters whose properties no later Unicode version has touched, so that the outcome does not
# depend on the Python that runs the test.
OLD = [
    char
    for char in map(chr, range(sys.maxunicode + 1))
    if unicodedata.ucd_3_2_0.category(char) not in ("Cn", "Cs") and char <= "\U000effff"
]


@pytest.mark.parametrize("every", [97, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lowercase", [True, False])
def test_every_character_between_letters(lowercase, every):
    """Each character of Unicode 3.2, with a vocabulary that tells the results apart."""
    texts = [f"a{char}b" for char in OLD[::every]]
    words = [reference.split_words(text, lowercase) for text in texts]
    chars = sorted({char for text in words for word in text for char in word})
    tokens = [*SPECIAL_TOKENS, *chars, *("##" + char for char in chars)]
    ids = {token: index for index, token in enumerate(tokens)}
    expected = [
        [ids["##" + char if i else char] for word in text for i, char in enumerate(word)]
        for text in words
    ]
    actual = WordPieceTokenizer(tokens, lowercase).tokenize(tf.constant(texts))
    assert len(texts) > 90_000 / every
    np.testing.assert_array_equal(actual.row_lengths(), [len(row) for row in expected])
    np.testing.assert_array_equal(actual.values, np.concatenate(expected))


def _characters(character_class):
    chars = tf.constant(OLD)
    matches = tf.strings.regex_full_match(chars, f"[{character_class}]").numpy()
    return [char for char, match in zip(OLD, matches, strict=True) if match]


def test_characters_of_the_fast_path():
    """The fast path only lower-cases ASCII, which is correct for these in any context."""

    def ascii_lower(char):
        return char.encode().lower().decode()

    def stays(char, lowercase):
        if reference.is_control(char) or char == "\ufffd":
            return False
        if not lowercase:
            return True
        decomposed = unicodedata.normalize("NFD", char.lower())
        return decomposed == ascii_lower(char) and not unicodedata.category(decomposed) == "Mn"

    splitting = _characters(SPLITTING)
    assert len(splitting) > 20_000
    for char in splitting:
        assert stays(char, True), f"U+{ord(char):04X}"
        assert (
            reference.is_white(char)
            or reference.is_punctuation(char)
            or reference.is_ideograph(char)
        ), f"U+{ord(char):04X}"
    for classes, lowercase in ((UNCASED_WORD, True), (CASED_WORD, False)):
        word = _characters(classes)
        assert not set(word) & set(splitting)
        for char in word:
            assert stays(char, lowercase) and not reference.is_white(char), f"U+{ord(char):04X}"
    assert set(map(chr, range(32, 127))) <= {*splitting, *_characters(UNCASED_WORD)}


UNITS = ["a", "é", "e\u0301\u0302", "a\u200b", "한", "\U0001d400"]


@pytest.mark.slow
@pytest.mark.parametrize("lowercase", [True, False])
def test_long_words(lowercase):
    """More than 200 characters, counted after cleaning, are one [UNK]."""
    words = reference.split_words(f"{''.join(UNITS)}x", lowercase)
    chars = sorted({char for word in words for char in word})
    tokenizer = WordPieceTokenizer(
        [*SPECIAL_TOKENS, *chars, *("##" + char for char in chars)], lowercase
    )
    ids = {token: index for index, token in enumerate(tokenizer.vocabulary)}
    texts = []
    for run in (unit * length for unit in UNITS for length in (200, 201)):
        texts += [run, f"x {run} x", f"{run},{run}", f"{run}博{run}", f"{run}\u3000x"]
    texts += ["é" * 5000, f"({'a' * 5000}\u2014x)"]
    expected = [sum(reference.tokenize(text, ids, lowercase), []) for text in texts]
    assert tokenizer.tokenize(texts).to_list() == expected


@pytest.mark.parametrize("lowercase", [True, False])
def test_invalid_utf8_is_dropped(lowercase):
    tokens = [*SPECIAL_TOKENS, "a", "b", "z", "中", "##a", "##b", "##z"]
    ids = {token: index for index, token in enumerate(tokens)}
    texts = [
        *(b"a\xffb", b"a\xc3", b"\xe4\xb8ab", b"\xed\xa0\x80z", b"\xf0\x9f\x92 b", b"\xc0\xafa"),
        *(b"\xf4\x90\x80\x80z", b"\xe4\xb8\xe4\xb8\xadz", b"\x80\x80a\xe2\x80", b"\xff", b"a\x00b"),
    ]
    expected = [sum(reference.tokenize(text, ids, lowercase), []) for text in texts]
    assert WordPieceTokenizer(tokens, lowercase).tokenize(texts).to_list() == expected


def test_lower_casing_ignores_the_locale():
    tokens = [*SPECIAL_TOKENS, "i", "##i"]
    tokenizer = WordPieceTokenizer(tokens)
    assert tokenizer.tokenize(["I", "İI", "Iİ", "Ï"]).to_list() == [[5], [5, 6], [5, 6], [5]]
