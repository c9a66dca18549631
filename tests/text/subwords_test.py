"""Hashed n-grams in numpy and in the graph, against a loop over bytes and gensim's values."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support import golden
from tfnlp.checkpoints import read_word_vectors
from tfnlp.text import Subwords, subword_rows, subword_rows_in_graph

# From gensim 4.4, `gensim.models.fasttext_inner.ft_hash_bytes(s.encode())`.
HASHES = {
    "a": 3826002220,
    "<th": 1619151151,
    "the>": 2502060934,
    "ü": 804934730,
    "北京": 1017908609,
    "naïve": 3440832043,
    "</s>": 3617362777,
}


def hashed(text):
    value = 2166136261
    for byte in text.encode():
        value ^= byte if byte < 128 else byte | 0xFFFFFF00
        value = value * 16777619 % 2**32
    return value


def reference(word, min_n, max_n, buckets):
    """The rows by definition."""
    if word == "</s>":
        return []
    marked = f"<{word}>"
    return [
        hashed(marked[i : i + n]) % buckets
        for i in range(len(marked))
        for n in range(min_n, max_n + 1)
        if i + n <= len(marked) and not (n == 1 and i in (0, len(marked) - 1))
    ]


def in_graph(words, *sizes):
    """The rows of each word."""
    rows, owner = subword_rows_in_graph(tf.constant(words, tf.string), *sizes)
    assert np.all(np.diff(owner) >= 0)
    return [rows.numpy()[owner.numpy() == i].tolist() for i in range(len(words))]


def in_numpy(words, *sizes):
    rows, splits = subword_rows(words, *sizes)
    assert rows.dtype == splits.dtype == np.int64 and splits[-1] == len(rows)
    return [rows[a:b].tolist() for a, b in zip(splits[:-1], splits[1:], strict=True)]


def test_rows_of_a_known_word():
    assert {text: hashed(text) for text in HASHES} == HASHES
    # `<the>`: <th the> <the the> he> ... in the order of their first character
    ngrams = ["<th", "<the", "<the>", "the", "the>", "he>"]
    assert in_numpy(["the"], 3, 6, 2_000_000) == [[hashed(n) % 2_000_000 for n in ngrams]]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), max_size=5),
    st.integers(1, 4),
    st.integers(0, 3),
    st.sampled_from([1, 7, 2_000_000, 2**32 - 1]),
)
@example(["</s>", "", "aaaa", "a\0b", "\ufeff", "👩‍👩‍👧", "<", ">"], 1, 2, 1000)
@example([], 3, 3, 5)
@example(["", "</s>"], 3, 0, 5)
def test_numpy_and_graph_are_the_definition(words, min_n, more, buckets):
    sizes = (min_n, min_n + more, buckets)
    want = [reference(word, *sizes) for word in words]
    assert in_numpy(words, *sizes) == want
    assert in_graph(words, *sizes) == want


def test_bytes_that_are_no_utf8_have_rows():
    words = [b"a\xffb", b"\x80\x80\x80\x80\x80\x80", b"ok"]
    rows, owner = subword_rows_in_graph(tf.constant(words), 3, 6, 100)
    assert rows[owner == 2].numpy().tolist() == reference("ok", 3, 6, 100)
    assert np.all((rows >= 0) & (rows < 100))


def test_vectors_are_means(monkeypatch):
    table = np.random.default_rng(0).standard_normal((20, 3)).astype("float32")
    subwords = Subwords(table, 2, 3)
    words = ["aaaa", "</s>", "北京", "", "x"]
    own = np.arange(15, dtype="float32").reshape(5, 3)
    for chunk in (100, 2):
        monkeypatch.setattr("tfnlp.text.subwords._CHUNK", chunk)
        for row, word in enumerate(words):
            found = table[reference(word, 2, 3, 20)].astype("float64")
            alone = found.mean(0) if len(found) else np.zeros(3)
            together = np.concatenate([found, own[row : row + 1]]).mean(0)
            np.testing.assert_allclose(subwords.vectors(words)[row], alone, atol=1e-6)
            np.testing.assert_allclose(subwords.vectors(words, own)[row], together, rtol=1e-6)


@pytest.mark.parametrize(
    "table, min_n, max_n, said",
    [
        (np.zeros((0, 2), "float32"), 3, 6, "buckets=0"),
        (np.zeros((3, 2), "float32"), 0, 6, "min_n=0"),
        (np.zeros((3, 2), "float32"), 4, 3, "max_n=3"),
    ],
)
def test_no_subwords_of(table, min_n, max_n, said):
    with pytest.raises(ValueError, match=said):
        Subwords(table, min_n, max_n)


def test_gensims_vectors_of_seen_and_unseen_words():
    """See tests/goldens/word_vectors_gensim: gensim 4.4, `load_facebook_vectors` of the same file,
    for words of its vocabulary and for others, whose vectors are means over n-grams alone."""
    folder = golden("word_vectors_gensim")
    vectors, want = read_word_vectors(folder / "fasttext.bin"), np.load(folder / "expected.npz")
    unseen = ["unseenword", "übungen", "北", "</s", "gardeners", "naïveté", "x"]
    assert vectors.words[:5] == ["and", "the", "she", "a", "to"]
    assert vectors.counts[:3].tolist() == [283, 230, 221]
    assert not any(word in vectors for word in unseen) and "北京" in vectors
    np.testing.assert_allclose(vectors.vectors, want["seen"], rtol=0, atol=1e-6)
    got = np.stack([vectors.vector(word) for word in unseen])
    np.testing.assert_allclose(got, want["unseen"], rtol=0, atol=1e-6)
    assert np.abs(want["unseen"]).min(1).max() > 0.01
