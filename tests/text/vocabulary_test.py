import collections
import os

import pytest

from tfnlp.text import (
    SPECIAL_TOKENS,
    WordPieceTokenizer,
    read_vocabulary,
    train_wordpiece,
    write_vocabulary,
)
from tfnlp.text.vocabulary_training import repeat_words

SENTENCES = ["The lower, the better: lower prices!", "A lowly newt lowers the newer price."] * 3


def test_specials_first_then_alphabet_then_merges():
    tokens = train_wordpiece(SENTENCES, 90)
    assert tuple(tokens[:5]) == SPECIAL_TOKENS
    assert len(tokens) == len(set(tokens)) <= 90
    chars = [t for t in tokens[5:] if len(t.removeprefix("##")) == 1]
    assert chars == tokens[5 : 5 + len(chars)]
    starting = [t for t in chars if not t.startswith("##")]
    continuing = [t for t in chars if t.startswith("##")]
    assert starting == sorted(set("".join(SENTENCES).lower()) - {" "})
    assert continuing == sorted(continuing) and chars == starting + continuing
    assert {"the", "lower", "newt"} <= set(tokens)
    assert all(t == t.lower() for t in tokens[5:])


def test_merges_follow_pair_counts():
    # Pairs: (h, ##u) 15, (##u, ##g) 20, (##u, ##n) 16, (p, ##u) 17, (##g, ##s) 5, (b, ##u) 4.
    texts = ["hug " * 10, "pug " * 5, "pun " * 12, "bun " * 4, "hugs " * 5]
    base = 5 + len("bghnpsu") + len("gnsu")
    assert train_wordpiece(texts, base + 3)[base:] == ["##ug", "##un", "hug"]


def test_sizes_beyond_what_the_texts_hold():
    # The trainer would reserve memory for the size, and end the process.
    assert train_wordpiece(SENTENCES, 4_000_000_000) == train_wordpiece(SENTENCES, 1000)


def test_min_frequency_and_limit_alphabet():
    texts = ["aa aa aa bb cd"]
    assert train_wordpiece(texts, 100, min_frequency=3)[5:] == [
        "a", "b", "c", "d", "##a", "##b", "##d", "aa",
    ]  # fmt: skip
    # Two a's and two b's are kept; of the single c and d neither.
    assert train_wordpiece(texts, 100, min_frequency=9, limit_alphabet=2)[5:] == [
        "a", "b", "##a", "##b",
    ]  # fmt: skip


def test_longest_tokens():
    """No token is longer than the tokenizer allows."""
    texts = ["a" * 256, "b" * 300] * 2
    tokens = train_wordpiece(texts, 100)
    assert "a" * 256 in tokens and "b" * 300 not in tokens
    ids = WordPieceTokenizer(tokens).tokenize(["a" * 200, "b" * 200])
    assert [tokens[i] for i in ids.values if tokens[i] == "[UNK]"] == []


def test_casing():
    assert "É" in train_wordpiece(["Été Été"], 30, lowercase=False)
    assert set(train_wordpiece(["Été Été"], 30)[5:]) >= {"e", "t", "##e", "ete"}


def test_every_word_counts_as_often_as_it_occurs():
    counts = collections.Counter({"a": 2500, "b": 1, "c": 999, "d": 1000})
    lines = list(repeat_words(counts))
    assert collections.Counter(" ".join(lines).split()) == counts
    assert max(len(line.split()) for line in lines) == 1000


@pytest.mark.parametrize(
    "texts, message",
    [
        ([], "texts"),
        (["\u200b\x00"], "texts"),
        ("abc", "texts"),
        ([b"abc"], r"texts\[0\]"),
        (["abc"], r"vocab_size=9 .*10"),
    ],
)
def test_faulty_texts(texts, message):
    with pytest.raises(ValueError, match=message):
        train_wordpiece(texts, 9)


def test_write_read(tmp_path):
    tokens = [*SPECIAL_TOKENS, "a", "##a", "é", "\u2028", "博"]
    path = tmp_path / "vocab.txt"
    path.write_text("old")
    write_vocabulary(path, tokens)
    assert path.read_bytes() == ("\n".join(tokens) + "\n").encode()
    assert read_vocabulary(str(path)) == tokens
    with pytest.raises(ValueError, match="vocab.txt has 'a\\\\nb' as token 5"):
        write_vocabulary(path, [*SPECIAL_TOKENS, "a\nb"])
    assert read_vocabulary(path) == tokens and os.listdir(tmp_path) == ["vocab.txt"]


SPECIAL_LINES = "\n".join(SPECIAL_TOKENS).encode()


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "empty"),
        (SPECIAL_LINES + b"\na\nb\na\n", "'a' twice, as 5 and 7"),
        (SPECIAL_LINES + b"\n##" + b"a" * 257, "257 bytes as token 5"),
        (SPECIAL_LINES + b"\n\na\n", "line 6"),
        (b"a\nb\n[PAD]\n[UNK]\n[SEP]\n", r"\[CLS\], \[MASK\]"),
    ],
)
def test_faulty_files_are_named(tmp_path, data, message):
    path = tmp_path / "broken.txt"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"^vocabulary file .*broken.txt .*{message}"):
        read_vocabulary(path)
