import numpy as np
import pytest
import tensorflow as tf

from tests.text import bpe_reference as reference
from tfnlp.text.byte_pairs import BytePairs, StaticTable

LETTERS = ["a", "b", "c", "d"]
MERGES = [("a", "b"), ("c", "c"), ("ab", "c"), ("cc", "cc"), ("d", "ab"), ("a", "a")]
TOKENS = [*LETTERS, *(left + right for left, right in MERGES)]


def first_symbols(data, lengths):
    ends = np.cumsum(lengths.numpy())[:-1]
    rows = [[*row, len(TOKENS) + 1] for row in np.split(data.numpy().astype(np.int64) - 97, ends)]
    return tf.constant([symbol for row in rows for symbol in row], tf.int64)


def encode(pairs, words):
    lengths = np.array([len(word) for word in words], np.int32)
    data = np.frombuffer("".join(words).encode(), np.uint8)
    ends = np.cumsum(lengths, dtype=np.int32)
    return pairs.encode(*map(tf.constant, (data, ends - lengths, ends))).to_list()


@pytest.mark.parametrize("known", [False, True])
def test_words_of_all_lengths(known):
    pairs = BytePairs(TOKENS, MERGES, first_symbols)
    assert pairs.separator == len(TOKENS) + 1
    if known:
        pairs.learn_words([token.encode() for token in TOKENS], range(len(TOKENS)))
    rng = np.random.default_rng(0)
    # 7, 8, 15, 16, 23, 24: where a word fills its numbers, and where it is too long for them.
    words = ["".join(rng.choice(LETTERS, n)) for n in range(1, 60) for _ in range(3)]
    words += ["a" * n for n in range(1, 40)] + words[:90] + TOKENS
    expected = [[TOKENS.index(s) for s in reference.merge(list(w), MERGES)] for w in words]
    assert encode(pairs, words) == expected
    assert encode(pairs, words[::-1]) == expected[::-1]


def test_a_word_that_only_begins_like_another():
    """Words that differ in one byte, at each place, or in their length."""
    pairs = BytePairs(TOKENS, MERGES, first_symbols)
    words = [f"{'a' * n}{c}{'a' * (25 - n)}" for n in range(26) for c in "bd"]
    words += ["d" * n for n in range(20, 30)]
    expected = [[TOKENS.index(s) for s in reference.merge(list(w), MERGES)] for w in words]
    assert encode(pairs, words) == expected


def test_learn_words_stores_only_words_that_are_encoded_as_their_token():
    tokens = [*TOKENS, "aab"]
    pairs = BytePairs(tokens, [*MERGES, ("aa", "b")], None)
    pairs._first_symbols = lambda data, lengths: tf.where(
        (symbols := first_symbols(data, lengths)) == len(TOKENS) + 1, pairs.separator, symbols
    )
    pairs.learn_words([token.encode() for token in tokens], range(len(tokens)))
    assert encode(pairs, ["aab"]) == [[tokens.index("a"), tokens.index("ab")]]


@pytest.mark.parametrize("count", [0, 1, 2, 1000, 60_000])
def test_static_table(count):
    rng = np.random.default_rng(count)
    keys = rng.integers(-(2**63), 2**63 - 1, count)
    keys[: count // 2] = np.arange(count // 2)  # some close to each other
    table = StaticTable(keys)
    assert len(set(table.slots.tolist())) == count
    assert count * 2 <= table.size <= max(16, 4 * count)
    np.testing.assert_array_equal(table.find(tf.constant(keys)), table.slots)
    others = table.find(tf.constant(rng.integers(-(2**63), 2**63 - 1, 1000))).numpy()
    assert ((others >= 0) & (others < table.size)).all()


def test_static_table_refuses_equal_keys():
    with pytest.raises(ValueError, match="no table found for 3 keys; remove equal ones"):
        StaticTable(np.array([5, 6, 5]))
