"""Trees of words against Huffman's algorithm with a heap."""

import heapq

import numpy as np
import pytest

from tfnlp.layers.hierarchical_softmax import balanced_depth, balanced_tree, huffman_tree


def counts(kind, size, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "zipf":
        return np.minimum(rng.zipf(1.3, size), 10**9)
    if kind == "powers":  # every node is a word and all that is rarer
        return 2 ** np.arange(size)[::-1]
    return np.full(size, {"equal": 7, "zero": 0}[kind])


def lengths_by_heap(counts):
    """The lengths of codes; which of several best trees it is depends on ties."""
    heap = [(int(count), number, [number]) for number, count in enumerate(counts)]
    heapq.heapify(heap)
    lengths, made = np.zeros(len(counts), int), len(counts)
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        words = first[2] + second[2]
        lengths[words] += 1
        heapq.heappush(heap, (first[0] + second[0], made, words))
        made += 1
    return lengths


def check_tree(steps):
    """Every inner node has two branches, words are where paths end; returns counts of nodes."""
    paths = {tuple(row[row != 0]) for row in steps}
    assert len(paths) == len(steps)
    branches = {path[:end] for path in paths for end in range(1, len(path) + 1)}
    nodes = {}
    for branch in branches:
        nodes.setdefault(abs(branch[-1]) - 1, set()).add(branch)
    assert set(nodes) == set(range(len(steps) - 1))
    for number, (first, second) in ((n, sorted(pair)) for n, pair in nodes.items()):
        assert first[:-1] == second[:-1] and {first[-1], second[-1]} == {number + 1, -number - 1}
    assert not branches & {path + (step,) for path in paths for step in (1, -1)}


@pytest.mark.parametrize("size", [2, 3, 64, 400])
@pytest.mark.parametrize("kind", ["zipf", "equal", "zero", "powers"])
def test_mean_lengths_are_the_least(kind, size):
    size = min(size, 50) if kind == "powers" else size
    found = counts(kind, size)
    steps = huffman_tree(found)
    check_tree(steps)
    lengths, best = (steps != 0).sum(1), lengths_by_heap(found)
    assert (lengths * found).sum() == (best * found).sum()
    assert lengths.max() == steps.shape[1] <= best.max()
    assert not (steps[:, 1:][steps[:, :-1] == 0]).any()  # zeros come last
    if kind != "zipf":
        np.testing.assert_array_equal(np.sort(lengths), np.sort(best))
    if kind in ("equal", "zero"):
        assert lengths.max() == balanced_depth(size)


def test_ties_are_settled_by_ids_alone():
    found = counts("zipf", 300)  # most words have the same few counts
    np.testing.assert_array_equal(huffman_tree(found), huffman_tree(found.copy()))
    # Words come before nodes, the rarest (the last) first, and the root is node 0:
    # nodes are made of (4, 3), (2, 1), (0, the first node) and the other two.
    want = [[-1, 2, 0], [1, -3, 0], [1, 3, 0], [-1, -2, -4], [-1, -2, 4]]
    np.testing.assert_array_equal(huffman_tree(np.full(5, 1)), want)
    frequent = [np.abs(huffman_tree(found)[word]).max() for word in np.argsort(-found)[:3]]
    assert max(frequent) < 20  # nodes with small numbers are those of frequent words


@pytest.mark.parametrize("size", [2, 3, 5, 8, 9, 100])
def test_a_balanced_tree(size):
    least = balanced_depth(size)
    assert least == int(np.ceil(np.log2(size)))
    steps = balanced_tree(size, least + 2)
    check_tree(steps)
    lengths = (steps != 0).sum(1)
    assert lengths.max() == least and lengths.min() >= least - 1
