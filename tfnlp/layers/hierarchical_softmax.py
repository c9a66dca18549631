"""A softmax over many words whose cost is that of a path in a binary tree, and losses with it.

The losses are those of word2vec over blocks of text, skip-gram and CBOW, as in
`tfnlp.layers.word_losses`: Mikolov et al. 2013 (Distributed Representations of Words and
Phrases and their Compositionality), section 2.1. Trees are tables of steps from the root.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from tfnlp.layers.base import Layer, Shape, Tensor, as_ids
from tfnlp.layers.word_embedding import existing, look_up
from tfnlp.layers.word_losses import WindowLoss, pair_losses

_GROUP = 8  # centres whose paths are multiplied with the same words, at most


@keras.saving.register_keras_serializable(package="tfnlp")
class HierarchicalSoftmax(Layer):
    """`P(w | x) = product over the nodes n on the path of w of s(d_n (x . v_n + b_n))`.

    The V words are the leaves of a binary tree with V - 1 inner nodes. From the root to w, d_n is 1
    where the path takes the left branch of n and -1 where it takes the right one; s is the
    logistic function. As `s(y) + s(-y) = 1`, the probabilities of all words add up to 1, and the
    loss of a word, `-log P`, reads the vectors of its path alone. Morin & Bengio 2005; Mikolov et
    al. 2013 (Distributed Representations of Words and Phrases), section 2.1, without biases.

    The tree is a weight that is not trained: at first a balanced one, with `set_counts` Huffman's,
    in which frequent words have short paths.

    Args:
        vocab_size: V, at least 2.
        depth: D, the longest path; None: that of a balanced tree, `ceil(log2 V)`. `huffman_tree`
            tells what a Huffman tree needs.
        use_bias: whether there are b_n.

    Call:
        inputs: `[..., P]`, any float.
        targets: int32 `[...]`, or None.

    Returns:
        losses, float32 `[...]`, or without targets the logarithms of all probabilities, float32
        `[..., V]`.

    Raises:
        ValueError: for a vocab_size below 2, or a depth below that of a balanced tree.
    """

    def __init__(
        self, vocab_size: int, depth: int | None = None, use_bias: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if vocab_size < 2:
            raise ValueError(f"vocab_size={vocab_size} must be at least 2")
        least = balanced_depth(vocab_size)
        if depth is not None and depth < least:
            raise ValueError(f"depth={depth} must be at least {least} for {vocab_size} words")
        self.vocab_size = vocab_size
        self.depth = depth
        self.use_bias = use_bias
        self.autocast = False  # scores and losses are float32 under any policy

    def build(self, inputs_shape: Shape, targets_shape: Shape | None = None) -> None:
        nodes, longest = self.vocab_size - 1, self.depth or balanced_depth(self.vocab_size)
        self.kernel = self.float32_weight("kernel", (nodes, inputs_shape[-1]))
        self.bias = self.float32_weight("bias", (nodes,)) if self.use_bias else None
        # [V, D]: see `huffman_tree`.
        self.tree = self.add_weight(
            name="tree",
            shape=(self.vocab_size, longest),
            initializer=lambda shape, dtype: ops.convert_to_tensor(balanced_tree(*shape), dtype),
            dtype="int32",
            trainable=False,
        )

    def set_counts(self, counts: np.ndarray) -> None:
        """Take the Huffman tree of words with these frequencies, int `[V]`.

        Raises:
            ValueError: for a tree with longer paths than `depth`.
        """
        steps, longest = huffman_tree(counts), self.tree.shape[1]
        if steps.shape[1] > longest:
            raise ValueError(f"depth={longest} must be at least {steps.shape[1]} for these counts")
        self.tree.assign(np.pad(steps, [(0, 0), (0, longest - steps.shape[1])]))

    def call(self, inputs: Tensor, targets: Tensor | None = None) -> Tensor:
        if targets is None:
            return self._log_probabilities(ops.cast(inputs, "float32"))
        x = ops.cast(ops.reshape(inputs, (-1, inputs.shape[-1])), "float32")  # [N, P]
        nodes, turns = self.paths(ops.reshape(targets, (-1,)))  # [N, D]
        # Only TensorFlow has arrays whose size depends on values.
        dynamic = keras.backend.backend() == "tensorflow"
        losses = (self.losses_of_existing if dynamic else self.plain_losses)(x, nodes, turns)
        return ops.reshape(losses, ops.shape(targets))

    def plain_losses(self, x: Tensor, nodes: Tensor, turns: Tensor) -> Tensor:
        """Return `-log P` `[N]` of paths `[N, D]`, see `paths`, given x `[N, P]`."""
        scores = ops.matmul(look_up(self.kernel, nodes), x[..., None])[..., 0]  # [N, D]
        if self.bias is not None:
            scores += look_up(self.bias, nodes)
        return ops.sum(ops.softplus(-turns * scores) * ops.abs(turns), -1)

    def losses_of_existing(self, x: Tensor, nodes: Tensor, turns: Tensor) -> Tensor:
        """Return what `plain_losses` returns, but look up existing steps alone, half of N D."""
        owners, places = existing(turns != 0.0)
        nodes, turns = (ops.take(ops.reshape(a, (-1,)), places) for a in (nodes, turns))
        scores = ops.sum(look_up(self.kernel, nodes) * ops.take(x, owners, axis=0), -1)
        if self.bias is not None:
            scores += look_up(self.bias, nodes)
        return ops.segment_sum(ops.softplus(-turns * scores), owners, ops.shape(x)[0])

    def paths(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return the nodes on the way to each word, and d: 1 for left, -1 for right, 0: no node.

        Args:
            words: int32 `[...]`.

        Returns:
            int32 and float32 `[..., D]`.
        """
        steps = ops.take(self.tree, as_ids(words), axis=0)
        return ops.maximum(ops.abs(steps), 1) - 1, ops.cast(ops.sign(steps), "float32")

    def _log_probabilities(self, inputs: Tensor) -> Tensor:
        scores = ops.matmul(inputs, ops.transpose(self.kernel))  # [..., V - 1]
        if self.bias is not None:
            scores += self.bias
        # One step of all paths at a time: all of them together are D times as many numbers.
        ways = ops.concatenate([-ops.softplus(-scores), -ops.softplus(scores)], -1)
        found = 0.0
        nodes, turns = self.paths(ops.arange(self.vocab_size))  # [V, D]
        places = nodes + ops.where(turns < 0, self.vocab_size - 1, 0)
        for step in range(self.tree.shape[1]):
            found += ops.take(ways, places[:, step], axis=-1) * ops.abs(turns[:, step])
        return found

    def compute_output_spec(
        self, inputs: Tensor, targets: Tensor | None = None
    ) -> keras.KerasTensor:
        last = (self.vocab_size,) if targets is None else ()
        return keras.KerasTensor((*inputs.shape[:-1], *last), dtype="float32")


class _HierarchicalWindows(WindowLoss):
    """The base of both losses: the tree, with vectors of nodes that are initially zero."""

    def __init__(
        self, vocab_size: int, window: int = 5, depth: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(vocab_size, window, **kwargs)
        self.depth = depth
        self.softmax = HierarchicalSoftmax(
            vocab_size, depth, use_bias=False, dtype=self.dtype_policy, name="softmax"
        )

    def build(self, inputs_shape: Shape) -> None:
        super().build(inputs_shape)
        self.softmax.build(inputs_shape)

    def set_counts(self, counts: np.ndarray) -> None:
        """Take the Huffman tree of words with these frequencies, see `HierarchicalSoftmax`."""
        self.softmax.set_counts(counts)


@keras.saving.register_keras_serializable(package="tfnlp")
class HierarchicalSkipGramLoss(_HierarchicalWindows):
    """`sum over pairs (c, o) of -log P(c | v_o)`, P by the tree of `HierarchicalSoftmax`.

    c is a centre and o another word within its window, as in `SkipGramLoss`.

    Args:
        vocab_size: V.
        window: W, the largest number of words on either side.
        depth: the longest path of the tree, see `HierarchicalSoftmax`.

    Call, returns: as `SkipGramLoss`, without negatives.

    Raises:
        ValueError: for sizes below 1, blocks without centres, or what `HierarchicalSoftmax`
            refuses.
    """

    def call(self, inputs: Tensor, word_ids: Tensor, left: Tensor, right: Tensor) -> Tensor:
        # Neighbouring centres share the words around them, and few centres at a time are enough
        # that most products of their paths with these words are of pairs that count.
        size, words = self.block_size, inputs.shape[1]
        group = max(n for n in range(1, _GROUP + 1) if size % n == 0)
        around = group + 2 * self.window
        places = np.arange(0, size, group)[:, None] + np.arange(around)
        # Parts of the block by a product, as slices have slow gradients.
        parts = np.eye(words, dtype="float32")[places].reshape(-1, words)
        near = ops.matmul(parts, ops.cast(inputs, "float32"))
        near = ops.reshape(near, (-1, around, inputs.shape[-1]))
        real = self.band(*(ops.reshape(x, (-1, group)) for x in (left, right)))
        nodes, turns = self.softmax.paths(ops.reshape(self.centres(word_ids), (-1, group)))
        steps = group * nodes.shape[-1]
        rows = look_up(self.softmax.kernel, ops.reshape(nodes, (-1, steps)))
        scores = ops.einsum("nsd,ncd->nsc", rows, near) * ops.reshape(turns, (-1, steps, 1))
        weights = ops.abs(turns)[..., None] * real[:, :, None]  # [N, G, D, G + 2W]
        weights = ops.reshape(weights, (-1, steps, around))
        losses = pair_losses(scores, weights, ops.zeros((1, 1, around)), steps)  # no negatives
        return ops.sum(ops.reshape(losses, (-1, size // group)), 1)


@keras.saving.register_keras_serializable(package="tfnlp")
class HierarchicalCBOWLoss(_HierarchicalWindows):
    """`sum over centres c of -log P(c | h_c)`, P by the tree of `HierarchicalSoftmax`.

    h_c is the mean of the vectors v of the words in the window of c; centres without any do not
    count.

    Args, call: as `HierarchicalSkipGramLoss`.

    Returns:
        float32 `[B]`: the sum over the centres of each block with `left + right > 0`.
    """

    of_means = True

    def call(self, inputs: Tensor, word_ids: Tensor, left: Tensor, right: Tensor) -> Tensor:
        means, real = self.means(ops.cast(inputs, "float32"), left, right)
        return ops.sum(self.softmax(means, self.centres(word_ids)) * real[..., 0], 1)


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
