"""Replaced tokens: masked positions filled with samples of a generator (Clark et al. 2020)."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Layer, Shape, Tensor

_EVALUATION_SEED = 20  # any number: an evaluation draws the same samples each time
_BLOCK = 128  # tokens of one block of the vocabulary: the lanes of a TPU's vector unit


@keras.saving.register_keras_serializable(package="tfnlp")
class ReplacedTokens(Layer):
    """Put a sample `x^_p ~ softmax(logits_p)` at each masked position p (ELECTRA, section 2).

    The sample is the inverse of the cumulative distribution at a uniform number, in two steps: the
    vocabulary's block c of 128 tokens with probability `sum_{v in c} softmax(logits_p)_v`, then the
    token of the block. So float32 sums stay short, and a position needs two random numbers. There
    is no gradient through it. A token counts as replaced if the sample differs from the token of
    the text: "if the generator happens to generate the correct token, that token is considered
    real".

    While training the randomness comes from a `keras.random.SeedGenerator`, as in `Dropout`.
    Otherwise the noise is the same at every call.

    Args:
        seed: of the seed generator.

    Call: `inputs` int `[B, T]`, the masked text; `positions` int `[B, P]`; `targets` int `[B, P]`,
    the tokens of the text there; `weights` `[B, P]`, 0 where a position is only padding;
    `logits` float `[B, P, V]`.

    Returns:
        The text with samples, int32 `[B, T]`, and 1 where a token is not that of the text, else 0,
        float32 `[B, T]`.
    """

    def __init__(self, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed = seed
        self.autocast = False  # logits keep all their digits
        self.built = True
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(
        self,
        inputs: Tensor,
        positions: Tensor,
        targets: Tensor,
        weights: Tensor,
        logits: Tensor,
        training: bool = False,
    ) -> tuple[Tensor, Tensor]:
        seed = self.seed_generator if training else _EVALUATION_SEED
        samples = _sample(logits, seed)  # [B, P]
        original = _put(inputs, positions, targets, weights)
        filled = _put(inputs, positions, samples, weights)
        return filled, ops.cast(ops.not_equal(filled, original), "float32")

    def compute_output_spec(
        self, inputs: Tensor, *_: Any, **others: Any
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        shape: Shape = tuple(inputs.shape)
        return keras.KerasTensor(shape, dtype="int32"), keras.KerasTensor(shape, dtype="float32")


def _sample(logits: Tensor, seed: Any) -> Tensor:
    """Return a token for each position, int32 `[B, P]`, from logits `[B, P, V]`."""
    logits = ops.stop_gradient(ops.cast(logits, "float32"))
    batch, positions = ops.shape(logits)[:2]
    # The softmax but for its denominator: `_inverse` divides.
    weights = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True))
    surplus = -logits.shape[-1] % _BLOCK
    weights = ops.pad(weights, [(0, 0), (0, 0), (0, surplus)])
    weights = ops.reshape(
        weights, (batch, positions, (logits.shape[-1] + surplus) // _BLOCK, _BLOCK)
    )  # [B, P, C, 128]
    uniform = keras.random.uniform((2, batch, positions), dtype="float32", seed=seed)
    block = _inverse(ops.sum(weights, axis=-1), uniform[0])  # [B, P]
    chosen = ops.equal(block[..., None], ops.arange(weights.shape[2], dtype="int32"))  # [B, P, C]
    inside = ops.sum(ops.where(chosen[..., None], weights, 0.0), axis=2)  # [B, P, 128]
    return block * _BLOCK + _inverse(inside, uniform[1])


def _inverse(weights: Tensor, uniform: Tensor) -> Tensor:
    """Return the first i with `sum_{j <= i} weights_j > u * sum_j weights_j`, int32 `[B, P]`.

    It exists, and its weight is not 0: u is at most 1 - 2^-23, so the product is less than the sum.
    """
    sums = ops.cumsum(weights, axis=-1)  # [B, P, N]
    below = ops.less_equal(sums, uniform[..., None] * sums[..., -1:])
    return ops.sum(ops.cast(below, "int32"), axis=-1)


def _put(tokens: Tensor, positions: Tensor, values: Tensor, weights: Tensor) -> Tensor:
    """Return `tokens` `[B, T]` with `values` `[B, P]` at `positions`, where weights are not 0."""
    length = tokens.shape[1] or ops.shape(tokens)[1]
    here = ops.equal(ops.cast(positions, "int32")[..., None], ops.arange(length, dtype="int32"))
    here = ops.logical_and(here, ops.not_equal(weights, 0)[..., None])  # [B, P, T]
    # The largest, not the sum: a position that comes twice has one token.
    placed = ops.max(ops.where(here, ops.cast(values, "int32")[..., None], -1), axis=1)  # [B, T]
    return ops.where(ops.greater_equal(placed, 0), placed, ops.cast(tokens, "int32"))
