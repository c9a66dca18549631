import numpy as np
import pytest
import tensorflow as tf

from tests.text import bpe_reference as reference
from tfnlp.text.pipeline.byte_pairs import BytePairs
from tfnlp.text.pipeline.models import Model, byte_model, single_words
from tfnlp.text.pipeline.pieces import Pieces, StaticTable

LETTERS = ["a", "b", "c", "d"]
MERGES = [("a", "b"), ("c", "c"), ("ab", "c"), ("cc", "cc"), ("d", "ab"), ("a", "a")]
TOKENS = [*LETTERS, *(left + right for left, right in MERGES)]
IDS = {token: i for i, token in enumerate(TOKENS)}


def encode(model, words, of_bytes=False):
    lengths = np.array([len(word) for word in words])
    chars = tf.constant([ord(char) for char in "".join(words)])
    if of_bytes:
        chars = tf.cast(chars, tf.uint8)
    ends = tf.constant(np.cumsum(lengths))
    return model.encode(chars, ends - lengths, ends).to_list()


@pytest.mark.parametrize("of_bytes", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_words_of_all_lengths(known, of_bytes):
    """Also beyond those that are looked up, and those that differ in one letter only."""
    pairs = BytePairs(IDS, MERGES)
    single = single_words(pairs, IDS) if known else {}
    model = byte_model(single, pairs) if of_bytes else Model(Pieces(single), pairs)
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(LETTERS, n)) for n in (*range(1, 60), 511, 512, 513, 2000)]
    words += ["a" * n for n in range(1, 40)] + words[:90] + TOKENS
    words += [f"{'a' * n}{c}{'a' * (25 - n)}" for n in range(26) for c in "bd"]
    expected = [[TOKENS.index(s) for s in reference.merge(list(w), MERGES)] for w in words]
    assert encode(model, words, of_bytes) == expected
    assert encode(model, words[::-1], of_bytes) == expected[::-1]


def test_long_words_of_one_number():
    """Thue and Morse's words have equal sums for every odd base."""
    one, other = "a", "b"
    for _ in range(12):
        one, other = one + other, other + one
    expected = [[TOKENS.index(s) for s in reference.merge(list(w), MERGES)] for w in (one, other)]
    assert encode(Model(Pieces(IDS), BytePairs(IDS, MERGES)), [one, other]) == expected


def test_only_words_that_are_cut_into_their_token_are_looked_up():
    ids = {**IDS, "aab": len(IDS)}
    pairs = BytePairs(ids, [*MERGES, ("aa", "b")])
    assert encode(Model(Pieces(single_words(pairs, ids)), pairs), ["aab"]) == [
        [ids["a"], ids["ab"]]
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 1000, 60_000])
def test_static_table(count):
    rng = np.random.default_rng(count)
    keys = rng.integers(-(2**63), 2**63 - 1, count)
    keys[: count // 2] = np.arange(count // 2)  # some close to each other
    table = StaticTable(keys, np.arange(count))
    known, values = table.find(tf.constant(keys))
    assert known.numpy().all()
    np.testing.assert_array_equal(values, np.arange(count))
    others = rng.integers(-(2**63), 2**63 - 1, 1000)
    np.testing.assert_array_equal(table.find(tf.constant(others))[0], np.isin(others, keys))


def test_static_table_refuses_equal_keys():
    with pytest.raises(ValueError, match="no table found for 3 keys; remove equal ones"):
        StaticTable(np.array([5, 6, 5]), np.arange(3))
