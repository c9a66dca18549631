"""Words with their offsets, against the words of the tokenizers and of `split_words`."""

import functools
import random
import re
import unicodedata

import pytest
import tensorflow as tf

from tests.text.reference import bert_vocabulary
from tests.text.reference import split_words as basic_words
from tfnlp.text import GPT2Tokenizer, WordPieceTokenizer, split_words, train_bpe
from tfnlp.text.words import characters, word_places, words_with_offsets

STYLES = ("bert", "gpt", "treebank", "marks", "spaces")
WORDS = (
    *["the", "Cat", "naïve", "cafe\u0301", "北京", "x1", "500", "Straße", "don't", "I'll", "ÀÉ"],
    *["Mary's", "well-known", "F-16", "1,000.5", "v2.0", "snake_case", "can’t", "DIDN'T", "rock'n"],
)
MARKS = (*"!?.,;:'\"()[]{}-_/&%$#@+=<>|~^`*\\", "“", "”", "’", "—", "…", "¿", "§")
SYMBOLS = ("€", "°", "©", "😀", "👩\u200d👧", "❤\ufe0f", "™", "½", "²")
SPACES = (" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u3000", "\u2028")
CONTROLS = ("\u200b", "\u00ad", "\ufeff", "\x00", "\x07", "\x85", "\ufffd", "\u202e", "\u200d")


def random_texts(parts, count, seed, length=12):
    rng = random.Random(seed)
    return ["".join(rng.choices(parts, k=rng.randrange(length))) for _ in range(count)]


def words_of(texts, style):
    words, _, _ = words_with_offsets(tf.constant(texts), style)
    return [[word.decode() for word in row] for row in words.to_list()]


@pytest.mark.parametrize("style", STYLES)
def test_offsets_give_the_words_and_leave_out_only_spaces(style):
    parts = [*WORDS, *MARKS, *SYMBOLS, *SPACES * 3, *CONTROLS]
    texts = ["", " ", *random_texts(parts, 300, 1)]
    found = words_with_offsets(tf.constant(texts), style)
    assert [x.dtype for x in found] == [tf.string, tf.int64, tf.int64]
    seen = set()
    for text, *row in zip(texts, *(x.to_list() for x in found), strict=True):
        data, left, before = text.encode(), b"", 0
        for word, start, end in zip(*row, strict=True):
            assert word == data[start:end] and before <= start < end
            left += data[before:start]
            seen.add(word.decode())
            before = end
        left = (left + data[before:]).decode()
        assert not left.strip().strip("".join((*SPACES, *CONTROLS)))
    assert seen >= ({"Cat"} if style == "spaces" else {"Cat", "naïve", "!"})


@pytest.mark.parametrize("style", STYLES)
def test_invalid_utf8(style):
    data = b"a\xff b \xe5\x8c end."
    words, starts, ends = (
        x[0].numpy().tolist() for x in words_with_offsets(tf.constant([data]), style)
    )
    assert words == [data[i:j] for i, j in zip(starts, ends, strict=True)]
    assert words[-2:] == ([b"\xe5\x8c", b"end."] if style == "spaces" else [b"end", b"."])


@pytest.mark.parametrize("lowercase", [True, False])
def test_bert_words_have_the_pieces_of_the_text(lowercase):
    vocabulary = bert_vocabulary("uncased" if lowercase else "cased")
    tokenizer = WordPieceTokenizer(vocabulary, lowercase)
    parts = [*WORDS, *MARKS, *SYMBOLS, *SPACES * 3, *CONTROLS]
    if lowercase:
        parts += ["!\u0301", "é\u0301"]  # accents on marks
    texts = ["", "\u200b", "a\u200bb", "x" * 201 + "!", *random_texts(parts, 300, 2)]
    words, _, _ = words_with_offsets(tf.constant(texts), "bert")
    together = words.with_values(tokenizer.tokenize(words.values)).merge_dims(1, 2).to_list()
    for text, one, other in zip(texts, together, tokenizer.tokenize(texts).to_list(), strict=True):
        assert one == other, repr(text)


def test_bert_words_are_those_of_the_basic_tokenizer():
    parts = [*WORDS, *MARKS, *SYMBOLS, *SPACES * 3]
    texts = [t for t in random_texts(parts, 200, 3) if "\u0301" not in t and "\u2028" not in t]
    texts = [t.replace("\u200d", "").replace("\ufe0f", "") for t in texts]
    assert words_of(texts, "bert") == [basic_words(text, False) for text in texts]
    # Dropped characters do not split words and are no words.
    assert words_of(["a\u200bb ! \u200b c"], "bert") == [["a\u200bb", "!", "c"]]


def test_treebank_words_are_those_of_split_words_for_english_letters_and_marks():
    parts = [w for w in WORDS if w not in ("cafe\u0301", "北京", "ÀÉ")]
    parts += [*MARKS, *SPACES * 3, "n't", "'s", "2", "a", "-", ".", ","]
    texts = random_texts(parts, 1500, 4, length=9)
    for text, words in zip(texts, words_of(texts, "treebank"), strict=True):
        # Known, see below: a digit before n't.
        if not re.search(r"[^\W\d]\d\w*n['’]t\b", text, re.IGNORECASE):
            assert words == split_words(text).split(), repr(text)


@pytest.mark.parametrize(
    ("text", "here", "there"),
    [
        ("北京大学", ["北", "京", "大", "学"], ["北京大学"]),  # ideographs are apart
        ("a\u200bb", ["a", "b"], ["a", "\u200b", "b"]),  # control characters are no words
        ("٣,٥", ["٣", ",", "٥"], ["٣,٥"]),  # numbers of other digits
        ("it'sÉ", ["it", "'s", "É"], ["it", "'", "sÉ"]),  # an ending before such a letter
        ("a2n't", ["a2n", "'", "t"], ["a2", "n't"]),  # rare
    ],
)
def test_known_differences_of_treebank_words(text, here, there):
    assert words_of([text], "treebank") == [here]
    assert split_words(text).split() == there


# Words of each language, with marks or joiners inside.
INSIDE = (
    *["नमस्ते", "दुनिया", "कैसे", "हो"],  # Hindi
    *[
        "cafe\u0301",
        "e\u0301te\u0301",
        "ที่",
        "น้ำ",
        "می\u200cخواهم",
        "ක්\u200dරි",
        "Donau\u00addampf",
        "שָׁלוֹם",
    ],
)


@pytest.mark.parametrize("style", ["treebank", "marks", "spaces"])
def test_marks_and_joiners_stay_inside_words(style):
    for word in (*INSIDE, *(f"{a}-{a}" for a in INSIDE if style == "treebank")):
        assert words_of([f"a {word} b"], style) == [["a", word, "b"]]
        assert split_words(f"a {word} b") == f"a {word} b"
    text = f"{' '.join(INSIDE[:4])}! “{INSIDE[4]}”"
    if style != "spaces":
        assert words_of([text], style) == [[*INSIDE[:4], "!", "“", INSIDE[4], "”"]]
    assert split_words(text).split() == [*INSIDE[:4], "!", "“", INSIDE[4], "”"]


@pytest.mark.parametrize("style", ["marks", "spaces"])
def test_words_of_the_graph_are_those_of_python(style):
    """For every character that Python knows, and for texts of all kinds, with their places."""
    every = map(chr, range(1, 0xF0000))
    known = [c for c in every if unicodedata.category(c) not in ("Cn", "Cs")]
    known = known[:20000:5] + known[20000::99]  # most of the others are ideographs
    texts = [f"a{c}b{c}{c}! {c} " for c in known]
    texts += random_texts([*WORDS, *MARKS, *SYMBOLS, *SPACES * 3, *CONTROLS, *INSIDE], 500, 6)
    words, starts, ends = words_with_offsets(tf.constant(texts), style)
    for text, row in zip(texts, words.to_list(), strict=True):
        assert [text[a:b].encode() for a, b in word_places(text, style)] == row, repr(text)
    places = [characters(tf.constant(texts), x.to_tensor(-1)).numpy() for x in (starts, ends)]
    for text, *row in zip(texts, *places, strict=True):
        found = [(a, b) for a, b in zip(*(x.tolist() for x in row), strict=True) if a >= 0]
        assert found == word_places(text, style)
    if style == "spaces":
        assert words.to_list() == [[w.encode() for w in text.split()] for text in texts]


@functools.cache
def byte_pairs():
    lines = ["the cat didn't see Mary's dog, he'll run (yes) ... naïve €5", "(', \n\n a  b"]
    return GPT2Tokenizer(train_bpe(lines * 3, 285, "gpt2"))


def pieces_of(tokenizer, texts):
    """The ids of all words, each with the space before it."""
    found = words_with_offsets(tf.constant(texts), "gpt")
    result = []
    for row in zip(*(x.to_list() for x in found), strict=True):
        before, spaced = 0, []
        for word, start, end in zip(*row, strict=True):
            spaced.append(b" " * (start > before > 0) + word)
            before = end
        ids = tokenizer.tokenize(tf.constant(spaced, "string", [len(spaced)])).to_list()
        result.append([i for word in ids for i in word])
    return result


@pytest.mark.slow
def test_gpt_words_have_the_pieces_of_the_text():
    tokenizer, rng = byte_pairs(), random.Random(5)
    words = ["the", "cat", "didn't", "Mary's", "he'll", "(yes", "no)", "12", "3.5", "abc123", "x!"]
    words += ["naïve", "€5", "a-b", "😀", "I'm", "we're", "you've", "he'd", "!", "it's", "a_b", "'"]
    texts = [" ".join(rng.choices(words, k=rng.randrange(1, 10))) for _ in range(200)]
    assert pieces_of(tokenizer, texts) == tokenizer.tokenize(texts).to_list()
    assert len(tokenizer.tokenize(["the didn't"]).to_list()[0]) < 10  # there are merges
