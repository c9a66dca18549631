"""Losses of word vectors: negative sampling, noise-contrastive estimation, GloVe.

Skip-gram: Mikolov et al. 2013 (Distributed Representations of Words and Phrases and their
Compositionality), equation 4; CBOW: Mikolov et al. 2013 (Efficient Estimation of Word
Representations in Vector Space), section 3.1. Their losses are computed for whole blocks of running
text, not pair by pair: the scores of all centres with all words around them are one matrix product,
of which a band counts, and all pairs of a block share one set of negatives.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from tfnlp.layers.base import Layer, Shape, Tensor, as_ids, check_positive
from tfnlp.layers.kernels.backend import beside, with_gradient
from tfnlp.layers.word_embedding import look_up


class WordLoss(Layer):
    """The base of losses of word vectors, float32 `[B]` under any policy."""

    of_means = False  # whether a centre is found from the mean of its window

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.autocast = False

    def compute_output_spec(self, inputs: Tensor, *_: Any, **others: Any) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape[:1], dtype="float32")


@functools.cache
def _bands(size: int, window: int) -> np.ndarray:
    """Return the words in the window of each centre, for each `left (W + 1) + right`.

    float32 `[L, (W + 1)^2, L + 2W]`, L = `size`.
    """
    reach = np.arange(window + 1)
    distance = np.arange(-window, size + window) - np.arange(size)[:, None]  # [L, L + 2W]
    distance = distance[:, None, None, :]
    inside = (distance >= -reach[:, None, None]) & (distance <= reach[:, None])
    inside &= distance != 0
    return inside.reshape(size, (window + 1) ** 2, -1).astype("float32")


class WindowLoss(WordLoss):
    """The base of losses of the words in windows: blocks of L centres, W words on either side."""

    def __init__(self, vocab_size: int, window: int = 5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, window=window)
        self.vocab_size = vocab_size
        self.window = window

    def build(self, inputs_shape: Shape) -> None:
        words = inputs_shape[-2]
        if words is None or words <= 2 * self.window:
            more = f"expected more than twice the window={self.window}"
            raise ValueError(f"{words} words a block; {more}")
        self.block_size = words - 2 * self.window

    def centres(self, word_ids: Tensor) -> Tensor:
        """Return the centres, int32 `[B, L]`, of a block's words `[B, L + 2W]`."""
        return word_ids[:, self.window : self.window + self.block_size]

    def band(self, left: Tensor, right: Tensor) -> Tensor:
        """Return 1 where a word is in the window of a centre, else 0: float32 `[B, L, L + 2W]`.

        Args:
            left, right: as in the call; or int32 `[B, L]` of parts of blocks.
        """
        places, windows = left.shape[1], (self.window + 1) ** 2
        table = _bands(places, self.window).reshape(places * windows, -1)
        kind = left * (self.window + 1) + right + ops.arange(places, dtype="int32") * windows
        return ops.take(ops.convert_to_tensor(table), as_ids(kind), axis=0)

    def means(self, inputs: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """Return the means of the vectors in the windows, and 1, or 0 for an empty window.

        They are float32 `[B, L, D]` and `[B, L, 1]`.
        """
        found = ops.cast(left + right, "float32")[..., None]  # [B, L, 1]
        shares = self.band(left, right) / ops.maximum(found, 1.0)  # [B, L, L + 2W]
        return ops.matmul(shares, inputs), ops.minimum(found, 1.0)


class _NegativeSampling(WindowLoss):
    """The base of both losses: the table of output vectors u, initially zero."""

    def __init__(
        self, vocab_size: int, window: int = 5, negatives: float = 5.0, **kwargs: Any
    ) -> None:
        super().__init__(vocab_size, window, **kwargs)
        if not negatives > 0:
            raise ValueError(f"negatives={negatives} must be above 0")
        self.negatives = negatives

    def build(self, inputs_shape: Shape) -> None:
        super().build(inputs_shape)
        self.kernel = self.float32_weight("kernel", (self.vocab_size, inputs_shape[-1]))

    def _rows(self, word_ids: Tensor, negative_ids: Tensor) -> tuple[Tensor, Tensor | None, int]:
        """Return u of centres and negatives, `[B, L + N, D]`, `_shifts` of the same, and L."""
        # One lookup for both: each table's gradient is one list of rows.
        ids = as_ids(ops.concatenate([self.centres(word_ids), negative_ids], 1))
        return look_up(self.kernel, ids), self._shifts(ids), self.block_size

    def _shifts(self, ids: Tensor) -> Tensor | None:
        """Return what is added to the scores of words, float32 `[B, L + N]`; None: nothing."""
        return None


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
        band = self.band(left, right)
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
        means, real = self.means(inputs, left, right)
        centres, noise = ops.split(rows, [size], axis=1)  # slices would have a slow gradient
        true = ops.sum(centres * means, -1, keepdims=True)  # [B, L, 1]
        false = ops.einsum("bld,bnd->bln", means, noise)  # [B, L, N]
        if shifts is not None:
            true += shifts[:, :size, None]
            false += shifts[:, None, size:]
        false = ops.sum(ops.softplus(false), -1, keepdims=True)
        weight = self.negatives / negative_ids.shape[1]
        return ops.sum((ops.softplus(-true) + weight * false) * real, (1, 2))


class _Noise:
    """What noise-contrastive estimation adds to negative sampling: biases, and log(k q).

    Gutmann & Hyvärinen 2010; for language models Mnih & Teh 2012. Where the loss is least,
    `exp s_w` of the score s_w is the probability of w in its context, without a sum over all words:
    biases learn what the normalizer would be.
    """

    def build(self, inputs_shape: Shape) -> None:
        super().build(inputs_shape)
        shape, uniform = (self.vocab_size,), keras.initializers.Constant(-math.log(self.vocab_size))
        self.bias = self.float32_weight("bias", shape, uniform)
        self.log_noise = self.float32_weight("log_noise", shape, uniform, trainable=False)

    def set_counts(self, counts: np.ndarray) -> None:
        """Take `counts^0.75`, int `[V]`, as the noise that `negative_ids` are drawn from."""
        weights = np.asarray(counts, "float64") ** 0.75
        # Words that are never drawn are never a target either; they only need a finite number.
        least = weights[weights > 0].min()
        self.log_noise.assign(np.log(np.maximum(weights, least) / weights.sum()))

    def _shifts(self, ids: Tensor) -> Tensor:
        noise = math.log(self.negatives) + look_up(self.log_noise, ids)
        return look_up(self.bias, ids) - noise


@keras.saving.register_keras_serializable(package="tfnlp")
class NCESkipGramLoss(_Noise, SkipGramLoss):
    """`-log sigmoid(s_co - log(k q_c)) - k/N sum over n of log sigmoid(-(s_no - log(k q_n)))`.

    The sum over pairs (c, o) and negatives n as in `SkipGramLoss`, with `s_co = u_c . v_o + b_c`. q
    is the noise that negatives are drawn from, at first uniform (see `set_counts`). Where the
    loss is least, `exp s_co` is the probability of c beside o.

    Args, call, returns: as `SkipGramLoss`.
    """


@keras.saving.register_keras_serializable(package="tfnlp")
class NCECBOWLoss(_Noise, CBOWLoss):
    """`-log sigmoid(s_c - log(k q_c)) - k/N sum over n of log sigmoid(-(s_n - log(k q_n)))`.

    The sum of this over centres c and negatives n as in `CBOWLoss`, `s_n = u_n . h_c + b_n`; see
    `NCESkipGramLoss`.

    Args, call, returns: as `CBOWLoss`.
    """


@keras.saving.register_keras_serializable(package="tfnlp")
class GloVeLoss(WordLoss):
    """`f(X_ij) (w_i . w~_j + b_i + b~_j - log X_ij)^2`, `f(x) = min(1, (x / x_max)^alpha)`.

    Pennington, Socher & Manning 2014, equations 8 and 9. X_ij is how often word j is near word i,
    w and w~ are the vectors of words and of words as neighbours. A cell with X_ij = 0 costs
    nothing. Initially w~ and both biases are uniform in `+-1/(2D)`, as in GloVe's code.

    Args:
        vocab_size: V.
        x_max: the count from which all cells weigh the same.
        alpha: the exponent of the weights below.

    Call:
        inputs: `[B, D]`, the vectors w_i.
        word_ids: int32 `[B]`, i.
        context_ids: int32 `[B]`, j.
        counts: float32 `[B]`, X_ij.

    Returns:
        float32 `[B]`.

    Raises:
        ValueError: for a vocab_size below 1, or an x_max not above 0.
    """

    def __init__(
        self, vocab_size: int, x_max: float = 100.0, alpha: float = 0.75, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size)
        if not x_max > 0:
            raise ValueError(f"x_max={x_max} must be above 0")
        self.vocab_size = vocab_size
        self.x_max = x_max
        self.alpha = alpha

    def build(self, inputs_shape: Shape) -> None:
        size = inputs_shape[-1]

        def uniform(name: str, *shape: int) -> keras.Variable:
            initializer = keras.initializers.RandomUniform(-0.5 / size, 0.5 / size)
            return self.float32_weight(name, shape, initializer)

        self.kernel = uniform("kernel", self.vocab_size, size)
        self.bias = uniform("bias", self.vocab_size)
        self.context_bias = uniform("context_bias", self.vocab_size)

    def call(self, inputs: Tensor, word_ids: Tensor, context_ids: Tensor, counts: Tensor) -> Tensor:
        products = ops.sum(ops.cast(inputs, "float32") * look_up(self.kernel, context_ids), -1)
        biases = look_up(self.bias, word_ids) + look_up(self.context_bias, context_ids)
        real = counts > 0
        found = ops.where(real, counts, 1.0)  # no slope is infinite
        errors = products + biases - ops.log(found)
        weights = ops.minimum(1.0, ops.power(found / self.x_max, self.alpha))
        return ops.where(real, weights, 0.0) * ops.square(errors)


def plain_pair_losses(scores: Tensor, band: Tensor, weights: Tensor, size: int) -> Tensor:
    """Return `sum_lc softplus(-s_lc) band_lc + sum_nc softplus(s_nc) weights_c`, float32 `[B]`.

    Args:
        scores: s, float32 `[B, L + N, C]`: L = `size` rows l of centres, then rows n of negatives.
        band: float32 `[B, L, C]`, how much each pair counts.
        weights: float32 `[B, 1, C]`, how much each negative counts beside word c.
    """
    true = ops.sum(ops.softplus(-scores[:, :size]) * band, (1, 2))
    return true + ops.sum(ops.softplus(scores[:, size:]) * weights, (1, 2))


@beside(plain_pair_losses)
def pair_losses(scores: Tensor, band: Tensor, weights: Tensor, size: int) -> Tensor:
    """Return what `plain_pair_losses` returns, with a gradient for `scores` alone.

    `softplus(-s) = -log(sigmoid(s))`, and the sigmoid is all that the gradient needs. No loss of a
    pair is larger than 87, the largest that float32 gives for a sigmoid above 0.
    """

    def log(probabilities: Tensor) -> Tensor:
        return ops.log(ops.maximum(probabilities, 1.2e-38))

    @with_gradient
    def sums(scores: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        true, false = ops.sigmoid(scores[:, :size]), ops.sigmoid(-scores[:, size:])
        losses = ops.sum(log(true) * -band, (1, 2))
        losses -= ops.sum(ops.sum(log(false), 1, keepdims=True) * weights, (1, 2))

        def gradient(upstream: Tensor) -> Tensor:
            upstream = upstream[:, None, None]  # [B, 1, 1]
            return ops.concatenate(
                [(true - 1.0) * (band * upstream), (1.0 - false) * (weights * upstream)], 1
            )

        return losses, gradient

    return sums(scores)
