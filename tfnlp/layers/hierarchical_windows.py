"""Hierarchical softmax over blocks of text: losses of word2vec, skip-gram and CBOW.

Mikolov et al. 2013 (Distributed Representations of Words and Phrases and their Compositionality),
section 2.1, in place of the negatives of `tfnlp.layers.negative_sampling`.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from tfnlp.layers.base import Layer, check_positive
from tfnlp.layers.hierarchical_softmax import HierarchicalSoftmax
from tfnlp.layers.kernels.pair_losses import pair_losses
from tfnlp.layers.negative_sampling import check_block
from tfnlp.layers.types import Shape, Tensor
from tfnlp.layers.word_embedding import look_up

_GROUP = 8  # centres whose paths are multiplied with the same words, at most


class _HierarchicalWindows(Layer):
    """The base of both losses: the tree, with vectors of nodes that are initially zero."""

    of_means = False  # whether a centre is found from the mean of its window

    def __init__(
        self, vocab_size: int, window: int = 5, depth: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_positive(window=window)
        self.vocab_size = vocab_size
        self.window = window
        self.depth = depth
        self.autocast = False  # scores and losses are float32 under any policy
        self.softmax = HierarchicalSoftmax(
            vocab_size, depth, use_bias=False, dtype=self.dtype_policy, name="softmax"
        )

    def build(self, inputs_shape: Shape) -> None:
        check_block(inputs_shape[-2], self.window)
        self.softmax.build(inputs_shape)

    def set_counts(self, counts: np.ndarray) -> None:
        """Take the Huffman tree of words with these frequencies, see `HierarchicalSoftmax`."""
        self.softmax.set_counts(counts)

    def _groups(
        self, inputs: Tensor, word_ids: Tensor, left: Tensor, right: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return neighbouring centres of a block together: they share the words around them.

        G centres a group are few, so that most of the products of all centres of a group with all
        words around it are of pairs that count.

        Returns:
            the words' vectors, float32 `[BL/G, G + 2W, D]`; whether each is in the window of a
            centre, float32 `[BL/G, G, G + 2W]` of 0 and 1; the centres, int32 `[BL/G, G]`.
        """
        size = word_ids.shape[1] - 2 * self.window
        group = max(n for n in range(1, _GROUP + 1) if size % n == 0)
        around = group + 2 * self.window
        starts = range(0, size, group)
        near = ops.stack([inputs[:, start : start + around] for start in starts], 1)
        near = ops.reshape(ops.cast(near, "float32"), (-1, around, inputs.shape[-1]))
        places = np.arange(-self.window, group + self.window) - np.arange(group)[:, None]
        before, behind = (ops.reshape(x, (-1, group, 1)) for x in (left, right))
        inside = ops.where(places < 0, before >= -places, behind >= places)
        real = ops.cast(inside, "float32") * (places != 0).astype("float32")
        centres = word_ids[:, self.window : self.window + size]
        return near, real, ops.reshape(centres, (-1, group))

    def compute_output_spec(self, inputs: Tensor, *_: Any, **others: Any) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape[:1], dtype="float32")


@keras.saving.register_keras_serializable(package="tfnlp")
class HierarchicalSkipGramLoss(_HierarchicalWindows):
    """`sum over pairs (c, o) of -log P(c | v_o)`, P by the tree of `HierarchicalSoftmax`.

    c is a centre and o another word within its window, as in `SkipGramLoss`.

    Args:
        vocab_size: V.
        window: W, the largest number of words on either side.
        depth: the longest path of the tree, see `HierarchicalSoftmax`.

    Call:
        inputs: `[B, L + 2W, D]`, vectors v of a block's words and of W words on either side.
        word_ids: int32 `[B, L + 2W]`, the words.
        left, right: int32 `[B, L]`, from 0 to W: the numbers of words to the left and to the
            right of each of the L centres that are in its window.

    Returns:
        float32 `[B]`: the sum over the `sum(left + right)` pairs of each block.

    Raises:
        ValueError: for sizes below 1, blocks without centres, or what `HierarchicalSoftmax`
            refuses.
    """

    def call(self, inputs: Tensor, word_ids: Tensor, left: Tensor, right: Tensor) -> Tensor:
        near, real, centres = self._groups(inputs, word_ids, left, right)
        nodes, turns = self.softmax.paths(centres)  # [N, G, D]
        steps, around = centres.shape[1] * nodes.shape[-1], near.shape[1]
        rows = look_up(self.softmax.kernel, ops.reshape(nodes, (-1, steps)))
        scores = ops.einsum("nsd,ncd->nsc", rows, near) * ops.reshape(turns, (-1, steps, 1))
        weights = ops.abs(turns)[..., None] * real[:, :, None]  # [N, G, D, G + 2W]
        weights = ops.reshape(weights, (-1, steps, around))
        losses = pair_losses(scores, weights, ops.zeros((1, 1, around)), steps)  # no negatives
        return ops.sum(ops.reshape(losses, (-1, left.shape[1] // centres.shape[1])), 1)


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
        near, real, centres = self._groups(inputs, word_ids, left, right)
        found = ops.sum(real, -1, keepdims=True)  # [N, G, 1]
        means = ops.matmul(real / ops.maximum(found, 1.0), near)  # [N, G, D]
        losses = self.softmax(means, centres) * ops.minimum(found[..., 0], 1.0)  # [N, G]
        return ops.sum(ops.reshape(losses, (-1, left.shape[1])), 1)
