"""Heads of an encoder: pooler, masked LM, next sentence, replaced tokens and their detection."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.activations import activation as activation_function
from tfnlp.layers.base import Initializer, Layer, MaskEnds, Shape, Tensor, check_positive
from tfnlp.layers.dense import built_dense
from tfnlp.layers.kernels.products import add_bias
from tfnlp.layers.normalization import LayerNorm


def at_positions(x: Tensor, positions: Tensor) -> Tensor:
    """Return the vectors `[B, ..., H]` of `[B, T, H]` at int positions `[B, ...]`.

    There is one index into `[B*T, H]` for each: the gather has one scatter as its gradient.
    """
    batch, length = ops.shape(x)[0], x.shape[1] or ops.shape(x)[1]
    first = length * ops.arange(batch, dtype="int32")
    first = ops.reshape(first, (-1, *[1] * (len(positions.shape) - 1)))
    rows = ops.cast(positions, "int32") + first
    return ops.take(ops.reshape(x, (-1, x.shape[-1])), rows, axis=0)


@keras.saving.register_keras_serializable(package="tfnlp")
class Pooler(MaskEnds):
    """`tanh(W h_0 + b)` of the first token, `[CLS]` (BERT, section 3.1 and reference code).

    Args:
        kernel_initializer: Keras initializer of W.

    Call: `[B, T, H]` to `[B, H]` in the compute dtype; with `positions`, int `[B, S]`, the first
    tokens of S sequences a row, to `[B, S, H]`.
    """

    def __init__(self, kernel_initializer: Initializer = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, inputs_shape: Shape, positions_shape: Shape | None = None) -> None:
        hidden = inputs_shape[-1]
        self.dense = built_dense(
            hidden, hidden, self.kernel_initializer, self.dtype_policy, "dense", "tanh"
        )

    def call(self, inputs: Tensor, positions: Tensor | None = None) -> Tensor:
        if positions is None:
            return self.dense(inputs[:, 0])  # [B, H]
        return self.dense(at_positions(inputs, positions))  # [B, S, H]

    def compute_output_spec(
        self, inputs: Tensor, positions: Tensor | None = None
    ) -> keras.KerasTensor:
        rows = inputs.shape[:1] if positions is None else positions.shape
        return keras.KerasTensor((*rows, inputs.shape[-1]), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="tfnlp")
class MaskedLMHead(MaskEnds):
    """`LN(f(W h_p + b))` at the masked positions p only (BERT, section 3.1, Task 1).

    The positions are gathered first, so that the projection onto the vocabulary that follows
    (`TokenEmbedding(reverse=True)`, then `LogitBias`) has P rows for each sequence, not T.

    Args:
        activation: f.
        norm_epsilon: epsilon of the layer norm.
        kernel_initializer: Keras initializer of W.
        units: width U of the output, that of the tied table; None: that of the inputs.

    Call: `inputs` `[B, T, H]`, `positions` int `[B, P]` to `[B, P, U]` in the compute dtype.

    Raises:
        ValueError: for an unknown activation, or units below 1.
    """

    def __init__(
        self,
        activation: str = "gelu",
        norm_epsilon: float = 1e-12,
        kernel_initializer: Initializer = "glorot_uniform",
        units: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(units=units)
        self.activation = activation
        self.units = units
        self.norm_epsilon = norm_epsilon
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self._function = activation_function(activation)

    def build(self, inputs_shape: Shape, positions_shape: Shape | None = None) -> None:
        hidden = inputs_shape[-1]
        units = self.units or hidden
        self.dense = built_dense(hidden, units, self.kernel_initializer, self.dtype_policy, "dense")
        self.norm = LayerNorm(self.norm_epsilon, dtype=self.dtype_policy, name="norm")
        self.norm.build((None, units))

    def call(self, inputs: Tensor, positions: Tensor, training: bool = False) -> Tensor:
        hidden = inputs.shape[-1]
        flat = ops.reshape(at_positions(inputs, positions), (-1, hidden))  # [B*P, H]
        y = self.norm(self._function(self.dense(flat), training))
        predictions = positions.shape[1] or ops.shape(positions)[1]
        return ops.reshape(y, (-1, predictions, self.units or hidden))  # [B, P, U]

    def compute_output_spec(
        self, inputs: Tensor, positions: Tensor, training: bool = False
    ) -> keras.KerasTensor:
        width = self.units or inputs.shape[-1]
        return keras.KerasTensor((*positions.shape, width), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="tfnlp")
class LogitBias(Layer):
    """`logits + b`, the output bias of BERT's masked LM after the tied projection.

    Call: float32 `[..., V]` to float32 `[..., V]` under any dtype policy.
    """

    def build(self, input_shape: Shape) -> None:
        self.bias = self.float32_weight("bias", (input_shape[-1],))

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Logits are float32 and must not be cast to the compute dtype.
        self.autocast = False
        self.supports_masking = True

    def call(self, inputs: Tensor) -> Tensor:
        return add_bias(ops.cast(inputs, "float32"), self.bias)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape, dtype="float32")


@keras.saving.register_keras_serializable(package="tfnlp")
class NextSentenceHead(Layer):
    """`W pooled + b`, two float32 logits: B follows A (0), B is random (1).

    BERT, section 3.1, Task 2; the order of the classes is the reference code's.

    Args:
        kernel_initializer: Keras initializer of W.

    Call: `[B, H]` to float32 `[B, 2]`, or `[B, S, H]` to `[B, S, 2]`.
    """

    def __init__(self, kernel_initializer: Initializer = "glorot_uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, input_shape: Shape) -> None:
        self.dense = built_dense(input_shape[-1], 2, self.kernel_initializer, "float32", "dense")

    def call(self, inputs: Tensor) -> Tensor:
        return self.dense(ops.cast(inputs, "float32"))  # [B, 2]

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((*inputs.shape[:-1], 2), dtype="float32")


@keras.saving.register_keras_serializable(package="tfnlp")
class DiscriminatorHead(MaskEnds):
    """`w . f(W h_t + b) + c`, one float32 logit a token: was it replaced (ELECTRA, section 2).

    Args:
        activation: f.
        kernel_initializer: Keras initializer of W and w.

    Call: `[B, T, H]` to float32 `[B, T]`.

    Raises:
        ValueError: for an unknown activation.
    """

    def __init__(
        self,
        activation: str = "gelu",
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.activation = activation
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self._function = activation_function(activation)

    def build(self, input_shape: Shape) -> None:
        hidden, initializer = input_shape[-1], self.kernel_initializer
        self.dense = built_dense(hidden, hidden, initializer, self.dtype_policy, "dense")
        self.logit = built_dense(hidden, 1, initializer, "float32", "logit")

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        hidden = self._function(self.dense(inputs), training)  # [B, T, H]
        return self.logit(ops.cast(hidden, "float32"))[..., 0]  # [B, T]

    def compute_output_spec(self, inputs: Tensor, training: bool = False) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape[:-1], dtype="float32")


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
