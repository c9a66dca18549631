"""Binary trees of words as tables of steps from the root: Huffman's, and one that is balanced."""

import numpy as np


def huffman_tree(counts: np.ndarray) -> np.ndarray:
    """Return Huffman's tree of words: the mean length of a path, weighted by `counts`, is least.

    As long as there are several trees, the two with the smallest counts become the children of a
    new node (Huffman 1952). Of equal counts, words come before nodes, words in the order of
    falling ids and nodes in that of their making; so the tree is a function of the counts, and of
    all trees of least mean length it has the shortest longest path.

    Args:
        counts: int `[V]`, 0 or more, of two words or more.

    Returns:
        int32 `[V, D]`, the steps of each word's path from the root: `n + 1` where it takes the
        left branch of inner node n, `-(n + 1)` for the right branch, 0 after its end. D is the
        longest path; node 0 is the root, and nodes come by falling counts.
    """
    counts = np.asarray(counts, "int64")
    size = len(counts)
    words = np.lexsort((-np.arange(size), counts))
    waiting = counts[words].tolist()  # rising
    made: list[int] = []  # counts of the inner nodes, rising too
    parents = np.zeros(2 * size - 1, "int64")  # of words in the order of `words`, then of nodes
    word = node = 0
    for number in range(size - 1):
        total = 0
        for side in (0, 1):
            if node == len(made) or (word < size and waiting[word] <= made[node]):
                child, total, word = word, total + waiting[word], word + 1
            else:
                child, total, node = size + node, total + made[node], node + 1
            parents[child] = 2 * number + side
        made.append(total)
    return _steps(parents, words)


def _steps(parents: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return the paths of words, whose parents are `2 (node's number as made) + side`."""
    size = len(words)
    places, columns = np.arange(size), []  # up from the leaves, all at once
    while True:
        inside = places < 2 * size - 2  # the last node made is the root
        if not inside.any():
            break
        number, side = np.divmod(parents[np.where(inside, places, 0)], 2)
        step = np.where(side, -1, 1) * (size - 1 - number)  # the root is node 0
        columns.append(np.where(inside, step, 0))
        places = np.where(inside, size + number, places)
    up = np.stack(columns, 1)  # [V, D]
    lengths = (up != 0).sum(1, keepdims=True)
    down = lengths - 1 - np.arange(up.shape[1])
    steps = np.where(down >= 0, np.take_along_axis(up, np.maximum(down, 0), 1), 0)
    found = np.empty(up.shape, "int32")
    found[words] = steps
    return found


def balanced_depth(size: int) -> int:
    """Return the longest path of a balanced tree of so many words, the shortest of any tree."""
    return max(1, (size - 1).bit_length())


def balanced_tree(size: int, depth: int) -> np.ndarray:
    """Return the steps of a balanced tree, see `huffman_tree`, int32 `[size, depth]`.

    It is a heap: the children of node n are `2 n + 1` and `2 n + 2`, and words are the leaves.
    """
    words = np.arange(size)
    heap = np.concatenate([words + size - 1, words[-2::-1]])  # words, then nodes as if made upwards
    parents = 2 * (size - 2 - (heap - 1) // 2) + (heap + 1) % 2
    steps = _steps(parents, words)
    return np.pad(steps, [(0, 0), (0, depth - steps.shape[1])])
