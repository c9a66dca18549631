"""Negative sampling over blocks of text: the losses of word2vec, skip-gram and CBOW.

Mikolov et al. 2013 (Distributed Representations of Words and Phrases and their Compositionality),
equation 4; CBOW: Mikolov et al. 2013 (Efficient Estimation of Word Representations in Vector
Space), section 3.1. The losses are computed for whole blocks of running text, not pair by pair:
the scores of all centres with all words around them are one matrix product, of which a band
counts, and all pairs of a block share one set of negatives.
"""

import functools
from typing import Any

import keras
import numpy as np
from keras import ops

from tfnlp.layers.base import Layer, as_ids, check_positive
from tfnlp.layers.kernels.pair_losses import pair_losses
from tfnlp.layers.types import Shape, Tensor
from tfnlp.layers.word_embedding import look_up


def check_block(words: int | None, window: int) -> None:
    """Raise a ValueError if a block has no centres."""
    if words is None or words <= 2 * window:
        raise ValueError(f"{words} words a block; expected more than twice the window={window}")


class _NegativeSampling(Layer):
    """The base of both losses: the table of output vectors u, initially zero, and the windows."""

    of_means = False  # whether a centre is found from the mean of its window

    def __init__(
        self, vocab_size: int, window: int = 5, negatives: float = 5.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, window=window)
        if not negatives > 0:
            raise ValueError(f"negatives={negatives} must be above 0")
        self.vocab_size = vocab_size
        self.window = window
        self.negatives = negatives
        self.autocast = False  # scores and losses are float32 under any policy

    def build(self, inputs_shape: Shape) -> None:
        self.kernel = self.float32_weight("kernel", (self.vocab_size, inputs_shape[-1]))
        check_block(inputs_shape[-2], self.window)
        self.block_size = inputs_shape[-2] - 2 * self.window

    @functools.cached_property
    def _bands(self) -> np.ndarray:
        return _bands(self.block_size, self.window)

    def _rows(self, word_ids: Tensor, negative_ids: Tensor) -> tuple[Tensor, Tensor | None, int]:
        """Return u of centres and negatives, `[B, L + N, D]`, `_shifts` of the same, and L."""
        size = self.block_size
        centres = word_ids[:, self.window : self.window + size]
        # One lookup for both: each table's gradient is one list of rows.
        ids = as_ids(ops.concatenate([centres, negative_ids], 1))
        return look_up(self.kernel, ids), self._shifts(ids), size

    def _shifts(self, ids: Tensor) -> Tensor | None:
        """Return what is added to the scores of words, float32 `[B, L + N]`; None: nothing."""
        return None

    def _band(self, left: Tensor, right: Tensor) -> Tensor:
        """Return float32 `[B, L, L + 2W]`: 1 where a word is in the window of a centre, else 0."""
        places, windows = self._bands.shape[:2]
        kind = left * (self.window + 1) + right + ops.arange(places, dtype="int32") * windows
        return ops.take(
            ops.convert_to_tensor(self._bands.reshape(places * windows, -1)), as_ids(kind), axis=0
        )

    def compute_output_spec(self, inputs: Tensor, *_: Any, **others: Any) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape[:1], dtype="float32")


@keras.saving.register_keras_serializable(package="tfnlp")
class SkipGramLoss(_NegativeSampling):
    """`sum over pairs (c, o) of -log s(u_c . v_o) - k/N sum over negatives n of log s(-u_n . v_o)`.

    s is the logistic function. c is a centre and o another word within its window, as in
    word2vec.c: its vector v_o is the input, and u_c the output to distinguish from noise. The
    paper draws k negatives for each pair; here the N of the block count k/N each, for every pair.
    The mean over draws is the same, for N/L products a word instead of k a pair.

    Args:
        vocab_size: V.
        window: W, the largest number of words on either side.
        negatives: k, the total weight of the negatives of a pair.

    Call:
        inputs: `[B, L + 2W, D]`, vectors v of a block's words and of W words on either side.
        word_ids: int32 `[B, L + 2W]`, the words.
        left, right: int32 `[B, L]`, from 0 to W: the numbers of words to the left and to the
            right of each of the L centres that are in its window.
        negative_ids: int32 `[B, N]`, words drawn from the noise distribution.

    Returns:
        float32 `[B]`: the sum over the `sum(left + right)` pairs of each block.

    Raises:
        ValueError: for sizes below 1, negatives not above 0, or blocks without centres.
    """

    def call(
        self, inputs: Tensor, word_ids: Tensor, left: Tensor, right: Tensor, negative_ids: Tensor
    ) -> Tensor:
        inputs = ops.cast(inputs, "float32")
        rows, shifts, size = self._rows(word_ids, negative_ids)
        scores = ops.einsum("bld,bcd->blc", rows, inputs)  # [B, L + N, L + 2W]
        if shifts is not None:
            scores += shifts[..., None]
        band = self._band(left, right)
        weights = ops.sum(band, 1, keepdims=True)  # [B, 1, L + 2W], pairs of each word
        weights *= self.negatives / negative_ids.shape[1]
        return pair_losses(scores, band, weights, size)


@keras.saving.register_keras_serializable(package="tfnlp")
class CBOWLoss(_NegativeSampling):
    """`sum over centres c of -log s(u_c . h_c) - k/N sum over negatives n of log s(-u_n . h_c)`.

    h_c is the mean of the vectors v of the words in the window of c; centres without any do
    not count. s is the logistic function; the N negatives of the block count k/N each (see
    `SkipGramLoss`).

    Args, call: as `SkipGramLoss`.

    Returns:
        float32 `[B]`: the sum over the centres of each block with `left + right > 0`.
    """

    of_means = True

    def call(
        self, inputs: Tensor, word_ids: Tensor, left: Tensor, right: Tensor, negative_ids: Tensor
    ) -> Tensor:
        inputs = ops.cast(inputs, "float32")
        rows, shifts, size = self._rows(word_ids, negative_ids)
        found = ops.cast(left + right, "float32")[..., None]  # [B, L, 1]
        shares = self._band(left, right) / ops.maximum(found, 1.0)  # [B, L, L + 2W]
        means = ops.matmul(shares, inputs)  # [B, L, D]
        real = ops.minimum(found, 1.0)  # [B, L, 1]
        centres, noise = ops.split(rows, [size], axis=1)  # slices would have a slow gradient
        true = ops.sum(centres * means, -1, keepdims=True)  # [B, L, 1]
        false = ops.einsum("bld,bnd->bln", means, noise)  # [B, L, N]
        if shifts is not None:
            true += shifts[:, :size, None]
            false += shifts[:, None, size:]
        false = ops.sum(ops.softplus(false), -1, keepdims=True)
        weight = self.negatives / negative_ids.shape[1]
        return ops.sum((ops.softplus(-true) + weight * false) * real, (1, 2))


def _bands(size: int, window: int) -> np.ndarray:
    """Return the words in the window of each centre, for each `left (W + 1) + right`.

    Returns:
        float32 `[L, (W + 1)^2, L + 2W]`.
    """
    reach = np.arange(window + 1)
    distance = np.arange(-window, size + window) - np.arange(size)[:, None]  # [L, L + 2W]
    distance = distance[:, None, None, :]
    inside = (distance >= -reach[:, None, None]) & (distance <= reach[:, None]) & (distance != 0)
    return inside.reshape(size, (window + 1) ** 2, -1).astype("float32")
