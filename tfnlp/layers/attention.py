"""Scaled dot-product attention with several heads."""

import math
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import carried, fitting
from tfnlp.layers.dense import BuiltDense, LowRank, WithLowRank, built_dense, low_rank_of
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.kernels.attention import Drops, bias, draw, plain_attention
from tfnlp.layers.kernels.backend import by_target, has_kernels
from tfnlp.layers.kernels.blockwise_attention import (
    Visible,
    blocks_of,
    blockwise_attention,
)
from tfnlp.layers.kernels.products import from_columns, to_columns
from tfnlp.layers.types import Initializer, Shape, Tensor

if keras.backend.backend() == "jax":
    from tfnlp import jax_attention as gpu
else:
    gpu = None

# Attention with more scores than these is computed in blocks, on a TPU and elsewhere: a CPU takes
# 0.6 to 0.9 of the time as a whole, as long as there is memory. A block has at most _BLOCK scores.
_ON_TPU, _ELSEWHERE, _BLOCK = 2**24, 2**26, 2**22


@keras.saving.register_keras_serializable(package="tfnlp")
class MultiHeadAttention(WithLowRank):
    """`softmax(Q K^T / sqrt(D) + mask) V` per head, heads joined and projected.

    Vaswani et al. 2017, section 3.2. Self-attention projects queries, keys and values with one
    fused kernel `[H, 3H]`; cross-attention (built with a context) uses `[H, H]` for the queries
    and one fused `[C, 2H]` for keys and values.

    With more than 2^26 scores, as 32 rows of 512 tokens with 12 heads have, and on a TPU with more
    than 2^24, they are computed in blocks, forwards and backwards, and memory grows linearly with T
    and S, see `kernels/blockwise_attention.py`; not with a cache, with `return_scores`, or for
    lengths that are unknown when the graph is made. On a GPU, in JAX's programs in bfloat16 or
    float16, one kernel a direction computes them at any size, see `tfnlp.jax_attention`.

    Args:
        num_heads: heads N; H must be a multiple of it, D = H / N.
        dropout: rate on the attention probabilities.
        causal: position t attends to positions <= t only.
        kernel_initializer: Keras initializer of the kernels.
        output_divisor: divides the initial values of the output kernel.
        low_rank: a `LowRank` (or its config) whose matrices "query", "key", "value" and
            "attention_output" have updates of low rank here; None: no matrix has.

    Call:
        inputs: `[B, T, H]`.
        context: `[B, S, C]` for cross-attention, or None.
        mask: bool `[B, S]`, True for real keys; padding does not change real positions. None: the
            mask that the context, or without one the inputs carry.
        cached_keys, cached_values: `[B, N, M, D]`, those of up to M earlier positions, or None.
            In cross-attention: those of the context, from `keys_values`, instead of `context`;
            nothing is written then and no cache is returned.
        cache_index: int scalar, number of positions of the cache that are filled; positions
            `cache_index ... cache_index + T - 1` are written. `mask`, if given, is `[B, M]`.
        return_scores: also return the probabilities.
        sequence_ids: int `[B, T]` for rows of several sequences, or None: position t attends to
            position s only if `sequence_ids[b, t] == sequence_ids[b, s]`. Self-attention without a
            cache.
        position_bias: `[B or 1, N, T, S]`, added to the scores, or None. They are computed as a
            whole then.

    Returns:
        `[B, T, H]` in the compute dtype; with a cache also its new keys and values; with
        `return_scores` also float32 `[B, N, T, S]`. Scores and softmax are float32 under any
        policy.

    Raises:
        ValueError: for H that is not a multiple of N, a context in some calls but not in all, a
            cache that is too short where that is known (M, T and an int `cache_index`),
            `sequence_ids` with a context or a cache, or a dropout outside [0, 1).
    """

    def __init__(
        self,
        num_heads: int,
        dropout: float = 0.0,
        causal: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
        output_divisor: float = 1.0,
        low_rank: LowRank | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.dropout = dropout
        self.causal = causal
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.output_divisor = output_divisor
        self.low_rank = low_rank_of(low_rank)
        self.supports_masking = True
        self.probability_dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, inputs_shape: Shape, context_shape: Shape | None = None) -> None:
        hidden = inputs_shape[-1]
        if self.num_heads < 1 or hidden % self.num_heads:
            raise ValueError(
                f"hidden size {hidden} is not a multiple of num_heads={self.num_heads}"
            )
        self.hidden_size = hidden
        self.head_size = hidden // self.num_heads
        self.cross = context_shape is not None

        def dense(width: int, units: int, name: str, divisor: float = 1.0) -> BuiltDense:
            return built_dense(
                width, units, self.kernel_initializer, self.dtype_policy, name, divisor=divisor
            )

        if self.cross:
            self.query = dense(hidden, hidden, "query")
            self.key_value = dense(context_shape[-1], 2 * hidden, "key_value")
        else:
            self.qkv = dense(hidden, 3 * hidden, "qkv")
        self.output_dense = dense(hidden, hidden, "output", self.output_divisor)
        if self.low_rank is not None:
            self.add_low_rank(self.low_rank)

    def projections(self) -> list[tuple[BuiltDense, tuple[str, ...]]]:
        """Return the dense layers with the names of the matrices in each, see `LowRank`."""
        if self.cross:
            first = [(self.query, ("query",)), (self.key_value, ("key", "value"))]
        else:
            first = [(self.qkv, ("query", "key", "value"))]
        return [*first, (self.output_dense, ("attention_output",))]

    def call(
        self,
        inputs: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        cached_keys: Tensor | None = None,
        cached_values: Tensor | None = None,
        cache_index: Tensor | None = None,
        return_scores: bool = False,
        sequence_ids: Tensor | None = None,
        position_bias: Tensor | None = None,
        training: bool = False,
    ) -> Tensor | tuple[Tensor, ...]:
        cache = (cached_keys, cached_values, cache_index)
        known = self._check(context, cache, inputs.shape[1], sequence_ids)
        if cached_keys is None:
            mask = carried(mask, inputs if context is None else context)
        length = inputs.shape[1] or ops.shape(inputs)[1]
        visible = Visible(mask, sequence_ids, self.causal)
        source = context if self.cross and not known else inputs
        keys = source.shape[1] or ops.shape(source)[1]
        if cached_keys is not None:
            keys = cached_keys.shape[2] or ops.shape(cached_keys)[2]
        drops = self._drops(inputs, keys, training)

        def joined(heads: Tensor) -> Tensor:  # [B, T, N, D]
            flat = ops.reshape(heads, (-1, self.hidden_size))  # [B*T, H]
            return ops.reshape(self.output_dense(flat), (-1, length, self.hidden_size))

        def whole(inputs: Tensor) -> tuple[Tensor, ...]:
            heads, extras = self._whole(
                inputs, context, visible, cache, known, drops, position_bias
            )
            return joined(heads), *(extras if return_scores else extras[:-1])

        if position_bias is not None:  # a branch has no gradient of what is outside of it
            outputs = whole(inputs)
            return outputs if len(outputs) > 1 else outputs[0]

        def in_blocks(inputs: Tensor) -> tuple[Tensor]:
            return (self._in_blocks(inputs, context, visible, drops),)

        # How many scores there are, of one row if their number is unknown.
        sizes = inputs.shape[0] or 1, self.num_heads, inputs.shape[1], source.shape[1]
        cut = not (return_scores or None in sizes or any(x is not None for x in cache))
        count = math.prod(sizes) if cut and has_kernels() else 0
        on_tpu, elsewhere = (in_blocks if count > most else whole for most in (_ON_TPU, _ELSEWHERE))

        def fused(inputs: Tensor) -> tuple[Tensor]:
            if self.cross:
                arrays = [(self.query, inputs, 1), (self.key_value, context, 2)]
            else:
                arrays = [(self.qkv, inputs, 3)]
            projected = tuple(self._project(*array) for array in arrays)
            return (joined(gpu.fused_attention(projected, visible, drops)),)

        fits = cut and gpu is not None and gpu.fits(self.head_size, self.compute_dtype)
        outputs = by_target(on_tpu, elsewhere, inputs, on_gpu=fused if fits else elsewhere)
        return outputs if len(outputs) > 1 else outputs[0]

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        return carried(None, inputs) if self.cross else fitting(previous_mask, inputs)

    def _in_blocks(
        self, inputs: Tensor, context: Tensor | None, visible: Visible, drops: Drops | None
    ) -> Tensor:
        """Return `[B, T, H]`, computed with positions as the last axis of all that is between."""
        if self.cross:
            projected = [*self._columns(self.query, inputs, 1)]
            projected += self._columns(self.key_value, context, 2)
        else:
            projected = self._columns(self.qkv, inputs, 3)
        length, keys = inputs.shape[1], projected[-1].shape[-1]
        blocks = blocks_of(inputs.shape[0], self.num_heads, length, keys, _BLOCK)
        heads = blockwise_attention(*projected, visible, drops, blocks)
        heads = ops.reshape(heads, (-1, self.hidden_size, length))  # [B, H, T]
        last = self.output_dense
        outputs = from_columns(heads, ops.copy(last.kernel), ops.copy(last.bias))
        if last.update is None:
            return outputs
        return outputs + last.update(ops.swapaxes(heads, 1, 2))

    def _columns(self, dense: BuiltDense, x: Tensor, parts: int) -> list[Tensor]:
        """Return `parts` tensors `[B, N, D, T]` of `[B, T, C]`."""
        kernels = ops.split(ops.convert_to_tensor(dense.kernel), parts, axis=-1)  # [C, H]
        biases = ops.split(ops.convert_to_tensor(dense.bias), parts)
        shape = (-1, self.num_heads, self.head_size, x.shape[1])
        columns = [
            to_columns(x, kernel, bias) for kernel, bias in zip(kernels, biases, strict=True)
        ]  # [B, H, T]
        if dense.update is not None:
            updates = ops.split(ops.swapaxes(dense.update(x), 1, 2), parts, axis=1)
            columns = [x + update for x, update in zip(columns, updates, strict=True)]
        return [ops.reshape(x, shape) for x in columns]

    def _whole(
        self,
        inputs: Tensor,
        context: Tensor | None,
        visible: Visible,
        cache: tuple[Tensor | None, ...],
        known: bool,
        drops: Drops | None,
        position_bias: Tensor | None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the output of all heads `[B, T, N, D]`; the new cache and the probabilities."""
        cached_keys, cached_values, cache_index = cache
        if self.cross:
            (q,) = _heads(self._project(self.query, inputs, 1))
            pair = (cached_keys, cached_values) if known else self.keys_values(context)
            k, v = (ops.cast(x, q.dtype) for x in pair)
        else:
            q, k, v = _heads(self._project(self.qkv, inputs, 3))  # each [B, N, T, D]
        new = ()
        if cached_keys is not None and not known:
            at = (0, 0, ops.cast(cache_index, "int32"), 0)
            new = tuple(
                ops.slice_update(cached, at, ops.cast(x, cached.dtype))  # [B, N, M, D]
                for cached, x in ((cached_keys, k), (cached_values, v))
            )
            k, v = (ops.cast(x, q.dtype) for x in new)
        keys = k.shape[2] or ops.shape(k)[2]
        last = self._last_visible(ops.shape(q)[2], cache_index)
        pair = None if visible.sequences is None else (visible.sequences,) * 2
        added = bias(keys, visible.mask, last, pair)
        if position_bias is not None:
            position_bias = ops.cast(position_bias, "float32")
            added = position_bias if added is None else added + position_bias
        heads, probabilities = plain_attention(q, k, v, added, drops)
        return ops.transpose(heads, (0, 2, 1, 3)), (*new, probabilities)

    def _last_visible(self, length: Tensor, cache_index: Tensor | None) -> Tensor | None:
        """Return the last key that each query sees, int32 `[T or 1, 1]`, or None for all keys."""
        start = 0 if cache_index is None else cache_index
        if self.causal:
            return ops.arange(length, dtype="int32")[:, None] + start
        # Without `causal` the slots of a cache that are not yet written are still hidden.
        return None if cache_index is None else ops.reshape(start + length - 1, (1, 1))

    def _drops(self, inputs: Tensor, keys: Tensor, training: bool) -> Drops | None:
        """Return the draws of dropout, None where nothing is dropped."""
        dropped = self.probability_dropout.dropped
        if not training or dropped == 0:
            return None
        batch, length = (inputs.shape[i] or ops.shape(inputs)[i] for i in range(2))
        seed = self.probability_dropout.seed_generator
        return draw(batch, self.num_heads, length, keys, dropped, seed)

    def _check(
        self,
        context: Tensor | None,
        cache: tuple[Tensor | None, ...],
        length: int | None,
        sequence_ids: Tensor | None = None,
    ) -> bool:
        """Check a call's arguments; return whether the cache has the keys of the context."""
        cached_keys, _, cache_index = cache
        given = cached_keys is not None
        if sequence_ids is not None and (given or context is not None):
            raise ValueError("`sequence_ids` is for self-attention without `cached_keys`")
        known = self.cross and context is None and given
        if (context is not None or known) != self.cross:
            raise ValueError("`context` must be given in every call or in none (it shapes weights)")
        if given and not known:  # writes past the end of a cache would overwrite earlier slots
            size, first = cached_keys.shape[2], cache_index if isinstance(cache_index, int) else 0
            if None not in (length, size) and first + length > size:
                raise ValueError(f"a cache of {size} positions is too short for {first} + {length}")
        return known

    def keys_values(self, context: Tensor) -> list[Tensor]:
        """Return the keys and values, each `[B, N, S, D]`, of a context `[B, S, C]`.

        A decoder with one context for many calls computes them once.
        """
        return _heads(self._project(self.key_value, context, 2))

    def _project(self, dense: BuiltDense, x: Tensor, parts: int) -> Tensor:
        """Return `[B, T, parts, N, D]` of `[B, T, C]`, by one matrix product."""
        length = x.shape[1] or ops.shape(x)[1]
        flat = dense(ops.reshape(x, (-1, x.shape[-1])))  # [B*T, parts*H]
        return ops.reshape(flat, (-1, length, parts, self.num_heads, self.head_size))

    def compute_output_spec(
        self,
        inputs: Tensor,
        context: Tensor | None = None,
        mask: Tensor | None = None,
        cached_keys: Tensor | None = None,
        cached_values: Tensor | None = None,
        cache_index: Tensor | None = None,
        return_scores: bool = False,
        sequence_ids: Tensor | None = None,
        position_bias: Tensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, ...]:
        cache = (cached_keys, cached_values, cache_index)
        self._check(context, cache, inputs.shape[1], sequence_ids)
        outputs = [keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)]
        source = inputs.shape[1] if context is None else context.shape[1]
        if cached_keys is not None:
            if not self.cross:
                outputs += [
                    keras.KerasTensor(cached.shape, dtype=cached.dtype)
                    for cached in (cached_keys, cached_values)
                ]
            source = cached_keys.shape[2]
        if return_scores:
            shape = (inputs.shape[0], self.num_heads, inputs.shape[1], source)
            outputs.append(keras.KerasTensor(shape, dtype="float32"))
        return tuple(outputs) if len(outputs) > 1 else outputs[0]


def _heads(projected: Tensor) -> list[Tensor]:
    """Return the parts of `[B, T, parts, N, D]`, each `[B, N, T, D]`."""
    parts = projected.shape[2]
    return ops.unstack(ops.transpose(projected, (2, 0, 3, 1, 4)), num=parts, axis=0)
