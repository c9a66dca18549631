"""Hierarchical softmax against all words, node by node; trees against Huffman's with a heap."""

import heapq

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.gradients import gradients, without_rows
from tests.layers.reference import built, sigmoid
from tests.layers.word_losses_test import B, L, V, W, blocks, windows
from tfnlp.layers import HierarchicalCBOWLoss, HierarchicalSkipGramLoss, HierarchicalSoftmax
from tfnlp.layers.hierarchical_softmax import balanced_depth, balanced_tree, huffman_tree

P = 7
COUNTS = (200 / np.arange(1, V + 1)).astype(int)
DEPTH = huffman_tree(COUNTS).shape[1] + 2  # with padding


def make(layer, shape, scale=0.7, counts=COUNTS, **arguments):
    made, _ = built(layer(V, depth=DEPTH, **arguments), shape, scale=scale)
    if counts is not None:
        made.set_counts(counts)
    return made


def enumeration(softmax, x):
    """P of every word for one vector, and d log P / d scores of the nodes: `[V]`, `[V, V - 1]`."""
    kernel = np.asarray(softmax.kernel, "float64")
    bias = 0 if softmax.bias is None else np.asarray(softmax.bias, "float64")
    right = sigmoid(-(kernel @ x + bias))  # of each node
    probabilities, slopes = np.ones(V), np.zeros((V, V - 1))
    for word, path in enumerate(softmax.tree.numpy()):
        for step in path[path != 0]:
            node = abs(step) - 1
            probabilities[word] *= right[node] if step < 0 else 1 - right[node]
            slopes[word, node] = -(1 - right[node]) if step < 0 else right[node]
    return probabilities, slopes


@pytest.mark.parametrize("use_bias, counts", [(True, COUNTS), (False, None)])
def test_probabilities_and_gradients_are_those_of_the_enumeration(use_bias, counts):
    softmax = make(HierarchicalSoftmax, (None, P), counts=counts, use_bias=use_bias)
    rng = np.random.default_rng(1)
    x, upstream = rng.standard_normal((2, B, P)).astype("float32"), rng.standard_normal((2, B))
    y = rng.integers(0, V, (2, B)).astype("int32")
    y[0, 0] = 0  # the most frequent word: its path has padding
    inputs = tf.constant(x)
    sources = [inputs, softmax.kernel, *([softmax.bias] if use_bias else [])]
    losses, found = gradients(lambda: softmax(inputs, y), sources, upstream.astype("float32"))
    assert isinstance(found[1], tf.IndexedSlices)  # never the whole table
    logs = np.asarray(softmax(x))
    want = [np.zeros(x.shape), np.zeros((V - 1, P)), np.zeros(V - 1)]
    for place in np.ndindex(2, B):
        probabilities, slopes = enumeration(softmax, x[place].astype("float64"))
        np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-12)
        np.testing.assert_allclose(logs[place], np.log(probabilities), rtol=1e-4)
        np.testing.assert_allclose(losses[place], -np.log(probabilities[y[place]]), rtol=1e-4)
        slope = -upstream[place] * slopes[y[place]]
        want[0][place] = slope @ np.asarray(softmax.kernel)
        want[1] += slope[:, None] * x[place]
        want[2] += slope
    for g, w in zip(without_rows(found), want, strict=False):
        np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "layer, size",  # groups of six, of one, and one centre
    [(HierarchicalSkipGramLoss, L), (HierarchicalSkipGramLoss, 11), (HierarchicalCBOWLoss, L),
     (HierarchicalCBOWLoss, 1)],
)  # fmt: skip
def test_blocks_are_the_sum_over_their_pairs(layer, size, monkeypatch):
    monkeypatch.setattr("tests.layers.word_losses_test.L", size)
    x, upstream = blocks(np.random.default_rng(2)), np.array([1.0, -2.0, 0.5], "float32")
    loss = make(layer, x["inputs"].shape, window=W)
    inputs, softmax = tf.constant(x["inputs"]), loss.softmax
    given = {**x, "inputs": inputs}
    losses, found = gradients(
        lambda: loss(**given), [inputs, softmax.kernel], upstream.astype("float32")
    )
    want = np.zeros(B), np.zeros(x["inputs"].shape), np.zeros((V - 1, P))
    kernel = np.asarray(softmax.kernel, "float64")
    for block in range(B):
        vectors = x["inputs"][block].astype("float64")
        for centre, near in windows(x, block):
            groups = [near] if layer is HierarchicalCBOWLoss else [[j] for j in near]
            for places in filter(len, groups):
                mean, word = vectors[places].mean(0), x["word_ids"][block, centre]
                probabilities, slopes = enumeration(softmax, mean)
                want[0][block] -= np.log(probabilities[word])
                slope = -upstream[block] * slopes[word]
                want[1][block, places] += slope @ kernel / len(places)
                want[2][:] += slope[:, None] * mean
    for g, w in zip((losses, *without_rows(found)), want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("use_bias", [True, False])
def test_both_forms_have_the_same_losses_and_gradients(use_bias):
    softmax = make(HierarchicalSoftmax, (None, P), use_bias=use_bias)
    rng = np.random.default_rng(3)
    x = tf.constant(rng.standard_normal((9, P)).astype("float32"))
    steps = softmax.paths(rng.integers(0, V, 9).astype("int32"))
    sources = [x, softmax.kernel, *([softmax.bias] if use_bias else [])]
    plain, existing = (
        gradients(lambda: form(x, *steps), sources)  # noqa: B023
        for form in (softmax.plain_losses, softmax.losses_of_existing)
    )
    np.testing.assert_allclose(existing[0], plain[0], rtol=1e-6)
    for found, want in zip(without_rows(existing[1]), without_rows(plain[1]), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_huge_scores_give_finite_losses_and_gradients():
    softmax = make(HierarchicalSoftmax, (None, P), scale=300.0)
    x, y = tf.ones((4, P)), np.array([0, 5, 11, 29], "int32")
    losses, found = gradients(lambda: softmax(x, y), [softmax.kernel])
    assert np.isfinite(losses).all() and np.isfinite(*without_rows(found)).all()
    assert np.max(losses) > 1000


def test_at_first_every_decision_is_even():
    softmax = HierarchicalSoftmax(V, DEPTH)
    x, y = tf.ones((V, P)), np.arange(V, dtype="int32")
    softmax.build(x.shape)
    softmax.set_counts(COUNTS)
    lengths = (huffman_tree(COUNTS) != 0).sum(1)
    np.testing.assert_allclose(softmax(x, y), np.log(2) * lengths, rtol=1e-5)


def drawn(kind, size, seed=0):
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
    found = drawn(kind, size)
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
    found = drawn("zipf", 300)  # most words have the same few counts
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
