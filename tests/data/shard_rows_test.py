"""Rows that workers exchange, and the order of windows."""

import numpy as np

from tfnlp.data.corpus.arrays import ranges
from tfnlp.data.pretraining.token_stream import window_keys
from tfnlp.data.shards.recipes import grouped, shard_of


def test_random_numbers_of_a_part_are_those_of_the_whole():
    whole = window_keys(0, 50, 7, 2)
    assert len(set(whole.tolist())) == 50
    for first, last in ((0, 1), (3, 9), (4, 8), (17, 50), (5, 5)):
        np.testing.assert_array_equal(window_keys(first, last, 7, 2), whole[first:last])


def test_shards_have_equal_parts_of_the_keys():
    keys = [0, 2**64 // 3 - 2**33, 2**64 // 3 + 2**33, 2**63, 2 * 2**64 // 3 + 2**33, 2**64 - 1]
    assert shard_of(np.array(keys, np.uint64), 3).tolist() == [0, 0, 1, 1, 2, 2]
    assert shard_of(np.array(keys, np.uint64), 1).tolist() == [0] * 6


def test_rows():
    tokens = np.arange(10, 30)
    got = ranges(tokens, np.array([5, 0, 18, 3]), np.array([2, 3, 1, 0]))
    assert got.tolist() == [15, 16, 10, 11, 12, 28]
    groups = dict(grouped(np.array([4, 1, 4, 1, 9]), {"x": np.arange(5)}))
    assert {g: rows["x"].tolist() for g, rows in groups.items()} == {4: [0, 2], 1: [1, 3], 9: [4]}
    assert list(grouped(np.zeros(0, int), {"x": np.zeros(0)})) == []
