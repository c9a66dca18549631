"""A softmax over many words whose cost is that of a path in a binary tree."""

from typing import Any

import keras
import numpy as np
from keras import ops

from tfnlp.layers.base import Layer
from tfnlp.layers.huffman import balanced_depth, balanced_tree, huffman_tree
from tfnlp.layers.types import Shape, Tensor
from tfnlp.layers.word_embedding import look_up


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
        nodes, turns = self.paths(targets)  # [..., D]
        rows = look_up(self.kernel, nodes)  # [..., D, P]
        scores = ops.matmul(rows, ops.cast(inputs, "float32")[..., None])[..., 0]  # [..., D]
        if self.bias is not None:
            scores += look_up(self.bias, nodes)
        return ops.sum(ops.softplus(-turns * scores) * ops.abs(turns), -1)

    def paths(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return the nodes on the way to each word, and d: 1 for left, -1 for right, 0: no node.

        Args:
            words: int32 `[...]`.

        Returns:
            int32 and float32 `[..., D]`.
        """
        steps = ops.take(self.tree, words, axis=0)
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
