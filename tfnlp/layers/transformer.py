"""One Transformer block: self-attention, optional cross-attention, feed-forward net."""

import inspect
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.activations import activation as activation_function
from tfnlp.layers.attention import MultiHeadAttention
from tfnlp.layers.base import Initializer, Shape, Tensor, carried, check_positive, fitting
from tfnlp.layers.dense import BuiltDense, LowRank, WithLowRank, low_rank_of
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.normalization import LayerNorm
from tfnlp.layers.remat import rematerialized


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
        self.num_heads, self.intermediate_size = num_heads, intermediate_size
        self.dropout, self.attention_dropout = dropout, attention_dropout
        self.activation = activation
        self.norm_first, self.norm_epsilon = norm_first, norm_epsilon
        self.causal = causal
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.residual_divisor = residual_divisor
        self.low_rank = low_rank_of(low_rank)
        self.supports_masking = True
        self._function = activation_function(activation)

    def build(self, inputs_shape: Shape, context_shape: Shape | None = None) -> None:
        hidden, policy = inputs_shape[-1], self.dtype_policy

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
        self.intermediate = self.dense(hidden, self.intermediate_size, "intermediate")
        last = self.intermediate_size, hidden, "output", self.residual_divisor
        self.output_dense = self.dense(*last)
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

        def block(inputs: Tensor, *others: Tensor | None) -> Tensor | tuple[Tensor, ...]:
            y, scores = ops.cast(inputs, self.compute_dtype), {"return_scores": return_scores}
            how = {**cache, **({} if self.cross else scores)}
            given = dict(zip(("mask", "sequence_ids", "position_bias"), others, strict=False))
            sub_layer = self.attention, self.attention_norm, ()
            y, *extras = self._attended(*sub_layer, y, given, how, training)
            norms = () if self.norm_first else (self.attention_norm,)
            if self.cross:
                names = ("context", "mask", "cached_keys", "cached_values")
                given = dict(zip(names, others[3:], strict=True))
                sub_layer = self.cross_attention, self.cross_attention_norm, norms
                y, *more = self._attended(*sub_layer, y, given, scores, training)
                extras += more
                norms = () if self.norm_first else (self.cross_attention_norm,)
            z = self._transformed(y, norms, training)
            return (z, *extras) if extras else z

        across = (context, context_mask, context_keys, context_values)
        arrays = (inputs, mask, sequence_ids, position_bias, *across)  # of both attentions
        if cached_keys is not None:
            return block(*arrays)
        return rematerialized(block, arrays, [self], training)

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        return fitting(previous_mask, inputs)

    def _attended(
        self,
        attention: MultiHeadAttention,
        norm: LayerNorm,
        before: Sequence[LayerNorm],
        x: Tensor,
        given: dict[str, Tensor | None],
        how: dict[str, Any],
        training: bool,
    ) -> tuple[Tensor, ...]:
        """Return `x + drop(attention(x))`, of `LN(x)` if pre-norm, and attention's other outputs.

        `before` are norms that x gets first, of the sub-layer below; `given` are tensors for the
        call, `how` its other arguments.
        """
        crossed = attention is not self.attention
        drop = self.cross_attention_output_dropout if crossed else self.attention_output_dropout

        def sum_of(x: Tensor, *tensors: Tensor | None) -> tuple[Tensor, ...]:
            for below in before:
                x = below(x)
            named = dict(zip(given, tensors, strict=True))
            read = norm(x) if self.norm_first else x
            attended, *extras = _outputs(attention(read, **named, **how, training=training))
            return x + drop(attended, training=training), *extras

        layers = [*before, attention, drop, *([norm] if self.norm_first else [])]
        return rematerialized(sum_of, [x, *given.values()], layers, training, full=True)

    def _transformed(self, y: Tensor, before: Sequence[LayerNorm], training: bool) -> Tensor:
        """Return the output of the feed-forward net's sub-layer, `[B, T, H]`; see `_attended`."""

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
        self, *arguments: Any, **named: Any
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, ...]:
        given = inspect.signature(self.call).bind(*arguments, **named).arguments
        context, context_keys = given.get("context"), given.get("context_keys")
        self._check(context, context_keys)
        scores = given.get("return_scores", False)
        names = ("inputs", "cached_keys", "cached_values", "cache_index", "sequence_ids")
        of_itself = {name: given[name] for name in names if name in given}
        specs = self.attention.compute_output_spec(
            **of_itself, return_scores=scores and not self.cross
        )
        if not (self.cross and scores):
            return specs
        _, crossed = self.cross_attention.compute_output_spec(
            given["inputs"], context, cached_keys=context_keys, return_scores=True
        )
        return (*_outputs(specs), crossed)

    def _check(self, context: Tensor | None, context_keys: Tensor | None) -> None:
        if (context is not None or context_keys is not None) != self.cross:
            raise ValueError("`context` must be given in every call or in none (it shapes weights)")


def _outputs(outputs: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)
