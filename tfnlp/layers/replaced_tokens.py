"""Replaced tokens: masked positions filled with samples of a generator (Clark et al. 2020)."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.types import Shape, Tensor

_EVALUATION_SEED = 20  # any number: an evaluation draws the same samples each time


@keras.saving.register_keras_serializable(package="tfnlp")
class ReplacedTokens(keras.layers.Layer):
    """Put a sample `x^_p ~ softmax(logits_p)` at each masked position p (ELECTRA, section 2).

    The sample is `argmax_v logits_pv + g_pv` with g Gumbel noise, `g = -log(-log u)`, u uniform in
    [0, 1) (Gumbel 1954; Maddison et al. 2014). There is no gradient through it. A token counts as
    replaced if the sample differs from the token of the text: "if the generator happens to
    generate the correct token, that token is considered real".

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
        logits = ops.cast(logits, "float32")
        seed = self.seed_generator if training else _EVALUATION_SEED
        shape = tuple(
            static or size for static, size in zip(logits.shape, ops.shape(logits), strict=True)
        )
        noise = -ops.log(-ops.log(keras.random.uniform(shape, dtype="float32", seed=seed)))
        samples = ops.argmax(logits + noise, axis=-1)  # [B, P]
        original = _put(inputs, positions, targets, weights)
        filled = _put(inputs, positions, samples, weights)
        return filled, ops.cast(ops.not_equal(filled, original), "float32")

    def compute_output_spec(
        self,
        inputs: Tensor,
        positions: Tensor,
        targets: Tensor,
        weights: Tensor,
        logits: Tensor,
        training: bool = False,
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        shape: Shape = tuple(inputs.shape)
        return keras.KerasTensor(shape, dtype="int32"), keras.KerasTensor(shape, dtype="float32")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "seed": self.seed}


def _put(tokens: Tensor, positions: Tensor, values: Tensor, weights: Tensor) -> Tensor:
    """Return `tokens` `[B, T]` with `values` `[B, P]` at `positions`, where weights are not 0."""
    length = tokens.shape[1] or ops.shape(tokens)[1]
    here = ops.equal(ops.cast(positions, "int32")[..., None], ops.arange(length, dtype="int32"))
    here = ops.logical_and(here, ops.not_equal(weights, 0)[..., None])  # [B, P, T]
    # The largest, not the sum: a position that comes twice has one token.
    placed = ops.max(ops.where(here, ops.cast(values, "int32")[..., None], -1), axis=1)  # [B, T]
    return ops.where(ops.greater_equal(placed, 0), placed, ops.cast(tokens, "int32"))
