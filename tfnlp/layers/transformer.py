"""One Transformer block: self-attention, optional cross-attention, feed-forward net."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.activations import activation as activation_function
from tfnlp.layers.attention import MultiHeadAttention
from tfnlp.layers.base import carried, check_positive, fitting
from tfnlp.layers.dense import BuiltDense, LowRank, WithLowRank, built_dense, low_rank_of
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.normalization import LayerNorm
from tfnlp.layers.remat import rematerialized
from tfnlp.layers.types import Initializer, Shape, Tensor


@keras.saving.register_keras_serializable(package="tfnlp")
class TransformerBlock(WithLowRank):
    """Self-attention and a feed-forward net, each with a residual connection and a layer norm.

    Post-norm (Vaswani et al. 2017, BERT, GPT):
    `y = LN(x + drop(attention(x)))`, `z = LN(y + drop(W2 f(W1 y + b1) + b2))`;
    pre-norm (`norm_first=True`, GPT-2):
    `y = x + drop(attention(LN(x)))`, `z = y + drop(W2 f(W1 LN(y) + b1) + b2)`.
    A block that is built with a context (the decoder of Vaswani et al. 2017, section 3.1) has
    between the two a third sub-layer of the same form, cross-attention: queries from `y`, keys
    and values from the context.

    Args:
        num_heads: attention heads.
        intermediate_size: width F of the feed-forward net.
        dropout: rate on the output of each sub-layer.
        attention_dropout: rate on the attention probabilities.
        activation: f, "gelu" (erf), "gelu_tanh", "relu".
        norm_first: pre-norm instead of post-norm.
        norm_epsilon: epsilon of the layer norms.
        causal: position t attends to positions <= t only.
        kernel_initializer: Keras initializer of all kernels.
        residual_divisor: divides the initial values of the kernels whose outputs are added to
            the residual stream, `sqrt(2 L)` in GPT-2 (Radford et al. 2019, section 2.3).
        low_rank: a `LowRank` (or its config): which matrices have updates of low rank, those of a
            cross-attention too; None: no matrix has. `models.add_low_rank` adds them to a model.

    Call: `inputs` `[B, T, H]`, `mask` bool `[B, T]` (True for real tokens), `cached_keys`,
    `cached_values`, `cache_index`, `sequence_ids` and `position_bias` as in `MultiHeadAttention`,
    `return_scores` for the attention map; `context` `[B, S, C]` and `context_mask` bool `[B, S]`,
    or instead of the context `context_keys` and `context_values`,
    `cross_attention.keys_values(context)`.

    Returns:
        `[B, T, H]` in the compute dtype, and the other outputs of `MultiHeadAttention`; with a
        context the map is that of the cross-attention, `[B, N, T, S]`.

    Raises:
        ValueError: as `MultiHeadAttention`, for an unknown activation, or an intermediate_size
            below 1.
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_size: int,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        activation: str = "gelu",
        norm_first: bool = False,
        norm_epsilon: float = 1e-12,
        causal: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
        residual_divisor: float = 1.0,
        low_rank: LowRank | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(intermediate_size=intermediate_size)
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation = activation
        self.norm_first = norm_first
        self.norm_epsilon = norm_epsilon
        self.causal = causal
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.residual_divisor = residual_divisor
        self.low_rank = low_rank_of(low_rank)
        self.supports_masking = True
        self._function = activation_function(activation)

    def build(self, inputs_shape: Shape, context_shape: Shape | None = None) -> None:
        hidden, policy = inputs_shape[-1], self.dtype_policy

        def dense(width: int, units: int, name: str, divisor: float = 1.0) -> BuiltDense:
            return built_dense(width, units, self.kernel_initializer, policy, name, divisor=divisor)

        def norm(name: str) -> LayerNorm:
            layer = LayerNorm(self.norm_epsilon, dtype=policy, name=name)
            layer.build((None, hidden))
            return layer

        def attention(causal: bool, name: str, *shapes: Shape) -> MultiHeadAttention:
            layer = MultiHeadAttention(
                self.num_heads,
                dropout=self.attention_dropout,
                causal=causal,
                kernel_initializer=self.kernel_initializer,
                output_divisor=self.residual_divisor,
                dtype=policy,
                name=name,
            )
            layer.build(*shapes)
            return layer

        self.cross = context_shape is not None
        self.attention = attention(self.causal, "attention", inputs_shape)
        self.attention_norm = norm("attention_norm")
        if self.cross:
            self.cross_attention = attention(False, "cross_attention", inputs_shape, context_shape)
            self.cross_attention_norm = norm("cross_attention_norm")
            self.cross_attention_output_dropout = Dropout(self.dropout, dtype=policy)
        self.intermediate = dense(hidden, self.intermediate_size, "intermediate")
        self.output_dense = dense(self.intermediate_size, hidden, "output", self.residual_divisor)
        self.output_norm = norm("output_norm")
        self.attention_output_dropout = Dropout(self.dropout, dtype=policy)
        self.output_dropout = Dropout(self.dropout, dtype=policy)
        if self.low_rank is not None:
            self.add_low_rank(self.low_rank)

    def projections(self) -> list[tuple[BuiltDense, tuple[str, ...]]]:
        """Return the dense layers with the names of the matrices in each, see `LowRank`."""
        crossed = self.cross_attention.projections() if self.cross else []
        transformed = [(self.intermediate, ("intermediate",)), (self.output_dense, ("output",))]
        return [*self.attention.projections(), *crossed, *transformed]

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        cached_keys: Tensor | None = None,
        cached_values: Tensor | None = None,
        cache_index: Tensor | None = None,
        return_scores: bool = False,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
        context_keys: Tensor | None = None,
        context_values: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        position_bias: Tensor | None = None,
        training: bool = False,
    ) -> Tensor | tuple[Tensor, ...]:
        self._check(context, context_keys)
        if cached_keys is None:
            mask = carried(mask, inputs)
        if context is not None:
            context_mask = carried(context_mask, context)
        cache = dict(cached_keys=cached_keys, cached_values=cached_values, cache_index=cache_index)

        def block(
            inputs: Tensor,
            mask: Tensor | None,
            sequence_ids: Tensor | None,
            position_bias: Tensor | None,
            *across: Tensor | None,
        ) -> Tensor | tuple[Tensor, ...]:
            x = ops.cast(inputs, self.compute_dtype)
            mine = (x, mask, sequence_ids, position_bias)
            y, *extras = self._attended(mine, cache, return_scores and not self.cross, training)
            if self.cross:
                y, *scores = self._crossed((y, *across), return_scores, training)
                extras += scores
            z = self._transformed(y, training)
            return (z, *extras) if extras else z

        across = (context, context_mask, context_keys, context_values)
        arrays = (inputs, mask, sequence_ids, position_bias, *across)
        if cached_keys is not None:
            return block(*arrays)
        return rematerialized(block, arrays, [self], training)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        return fitting(previous_mask, inputs)

    def _attended(
        self,
        arrays: Sequence[Tensor | None],
        cache: dict[str, Tensor | None],
        return_scores: bool,
        training: bool,
    ) -> tuple[Tensor, ...]:
        """Return `x + drop(attention(x))`, of `LN(x)` if pre-norm, and attention's other outputs.

        `arrays` are x `[B, T, H]`, the mask and the sequence ids of the keys, and what is added to
        the scores.
        """
        norm = [self.attention_norm] if self.norm_first else []

        def sum_of(
            x: Tensor,
            mask: Tensor | None,
            sequence_ids: Tensor | None,
            position_bias: Tensor | None,
        ) -> tuple[Tensor, ...]:
            attended, *extras = _outputs(
                self.attention(
                    norm[0](x) if norm else x,
                    mask=mask,
                    return_scores=return_scores,
                    sequence_ids=sequence_ids,
                    position_bias=position_bias,
                    training=training,
                    **cache,
                )
            )
            return x + self.attention_output_dropout(attended, training=training), *extras

        layers = [*norm, self.attention, self.attention_output_dropout]
        return rematerialized(sum_of, arrays, layers, training, full=True)

    def _crossed(
        self, arrays: Sequence[Tensor | None], return_scores: bool, training: bool
    ) -> tuple[Tensor, ...]:
        """Return the output of the cross-attention's sub-layer, and its map if it is asked for.

        `arrays` are y `[B, T, H]`, the context, its mask, and its keys and values.
        """

        def sum_of(
            y: Tensor,
            context: Tensor | None,
            mask: Tensor | None,
            keys: Tensor | None,
            values: Tensor | None,
        ) -> tuple[Tensor, ...]:
            if not self.norm_first:
                y = self.attention_norm(y)
            attended, *scores = _outputs(
                self.cross_attention(
                    self.cross_attention_norm(y) if self.norm_first else y,
                    context=context,
                    mask=mask,
                    cached_keys=keys,
                    cached_values=values,
                    return_scores=return_scores,
                    training=training,
                )
            )
            y = y + self.cross_attention_output_dropout(attended, training=training)
            return y if self.norm_first else self.cross_attention_norm(y), *scores

        layers = [self.cross_attention, self.cross_attention_norm]
        layers += [self.cross_attention_output_dropout]
        layers += [] if self.norm_first else [self.attention_norm]
        return rematerialized(sum_of, arrays, layers, training, full=True)

    def _transformed(self, y: Tensor, training: bool) -> Tensor:
        """Return the output of the feed-forward net's sub-layer, `[B, T, H]`."""
        before = [] if self.cross or self.norm_first else [self.attention_norm]

        def sum_of(y: Tensor) -> Tensor:
            # [B*T, H]: 2-D products, which the CPU library fuses with bias and activation.
            flat = ops.reshape(y, (-1, y.shape[-1]))
            for norm in before:
                flat = norm(flat)
            wide = self.intermediate(self.output_norm(flat) if self.norm_first else flat)
            wide = self._function(wide, training)
            z = flat + self.output_dropout(self.output_dense(wide), training=training)
            return z if self.norm_first else self.output_norm(z)

        layers = [*before, self.intermediate, self.output_dense, self.output_norm]
        layers += [self.output_dropout]
        flat = rematerialized(sum_of, [y], layers, training, full=True)
        length = y.shape[1] or ops.shape(y)[1]
        return ops.reshape(flat, (-1, length, y.shape[-1]))  # [B, T, H]

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        cached_keys: Tensor | None = None,
        cached_values: Tensor | None = None,
        cache_index: Tensor | None = None,
        return_scores: bool = False,
        context: Tensor | None = None,
        context_mask: Tensor | None = None,
        context_keys: Tensor | None = None,
        context_values: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        position_bias: Tensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, ...]:
        self._check(context, context_keys)
        specs = self.attention.compute_output_spec(
            inputs,
            cached_keys=cached_keys,
            cached_values=cached_values,
            cache_index=cache_index,
            return_scores=return_scores and not self.cross,
            sequence_ids=sequence_ids,
        )
        if not self.cross:
            return specs
        crossed = self.cross_attention.compute_output_spec(
            inputs,
            context,
            cached_keys=context_keys,
            cached_values=context_values,
            return_scores=return_scores,
        )
        outputs, *cache = _outputs(specs)
        return (outputs, *cache, crossed[1]) if return_scores else specs

    def _check(self, context: Tensor | None, context_keys: Tensor | None) -> None:
        if (context is not None or context_keys is not None) != self.cross:
            raise ValueError("`context` must be given in every call or in none (it shapes weights)")


def _outputs(outputs: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)
