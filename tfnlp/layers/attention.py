"""Scaled dot-product attention with several heads."""

import dataclasses
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Initializer, Shape, Tensor, carried, fitting
from tfnlp.layers.dense import BuiltDense, LowRank, WithLowRank, low_rank_of
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.kernels.attention import Drops, Visible, draw, plain_attention
from tfnlp.layers.kernels.backend import by_target, has_kernels
from tfnlp.layers.kernels.blockwise_attention import blocks_of, blockwise_attention
from tfnlp.layers.kernels.products import from_columns, to_columns

if keras.backend.backend() == "jax":
    from tfnlp import jax_attention as gpu
else:
    gpu = None

_BLOCK = 2**22  # scores of a block


@dataclasses.dataclass(frozen=True)
class Form:
    """A way to compute all heads of attention: up to rounding all give the same, and gradients.

    With `columns` positions are the last axis: it takes queries, keys and values `[B, N, D, T]` and
    returns `[B, N, D, T]`. Otherwise it takes what `_project` returns, of self-attention one array,
    else two, and returns `[B, T, N, D]`.
    """

    attend: Callable[[Sequence[Tensor], Visible, Drops | None], Tensor]
    columns: bool = False


def _plain(projected: Sequence[Tensor], visible: Visible, drops: Drops | None) -> Tensor:
    q, k, v = (x for part in projected for x in _heads(part))
    bias = visible.bias(*(x.shape[2] or ops.shape(x)[2] for x in (q, k)))
    return ops.transpose(plain_attention(q, k, v, bias, drops)[0], (0, 2, 1, 3))


def _library(projected: Sequence[Tensor], visible: Visible, drops: Drops | None) -> Tensor:
    parts = (ops.unstack(x, num=x.shape[2], axis=2) for x in projected)
    q, k, v = (x for part in parts for x in part)  # [B, T, N, D]
    bias = visible.bias(*(x.shape[1] or ops.shape(x)[1] for x in (q, k)))
    if bias is not None and keras.backend.standardize_dtype(q.dtype) == "float16":
        bias = ops.maximum(bias, -6e4)  # finite in float16, too
    return ops.nn.dot_product_attention(q, k, v, bias=bias)


def _in_blocks(columns: Sequence[Tensor], visible: Visible, drops: Drops | None) -> Tensor:
    batch, heads, _, length = columns[0].shape
    blocks = blocks_of(batch, heads, length, columns[-1].shape[-1], _BLOCK)
    return blockwise_attention(*columns, visible, drops, blocks)


def _fused(projected: Sequence[Tensor], visible: Visible, drops: Drops | None) -> Tensor:
    return gpu.fused_attention(tuple(projected), visible, drops)


PLAIN, LIBRARY, FUSED = Form(_plain), Form(_library), Form(_fused)
BLOCKS = Form(_in_blocks, columns=True)
# Which form is taken: of a target the first row with less than the scores `[B, N, T, S]` of a call.
# "gpu" are JAX's programs in bfloat16 or float16 for one of NVIDIA, "other" backends besides
# TensorFlow and JAX in inference; forms that need sizes are passed over where these are unknown.
CHOICES = (
    ("gpu", FUSED, 0),  # an H200, 32 x 512, 12 heads of 64: 475 us; cuDNN's, without dropout, 457
    ("tpu", BLOCKS, 2**24),  # a v5e, BERT-base, 96 x 512: 382 ms a step, and 96 rows fit
    ("cpu", BLOCKS, 2**26),  # smaller ones take 0.6 to 0.9 of the time as a whole
    ("other", LIBRARY, 0),  # torch's own kernels
)


def form_of(target: str, scores: int) -> Form:
    """Return the form that is taken for a target and so many scores."""
    forms = (form for name, form, least in CHOICES if name == target and scores > least)
    return next(forms, PLAIN)


@keras.saving.register_keras_serializable(package="tfnlp")
class MultiHeadAttention(WithLowRank):
    """`softmax(Q K^T / sqrt(D) + mask) V` per head, heads joined and projected.

    Vaswani et al. 2017, section 3.2. Self-attention projects queries, keys and values with one
    fused kernel `[H, 3H]`; cross-attention (built with a context) uses `[H, H]` for the queries
    and one fused `[C, 2H]` for keys and values.

    The formula has several forms, see `CHOICES`. In blocks (`kernels/blockwise_attention.py`) and
    by the kernels of a GPU (`tfnlp.jax_attention`) memory grows linearly with T and S, forwards and
    backwards. With a cache, `return_scores` or a `position_bias` scores are computed as a whole.

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
        position_bias: `[B or 1, N, T, S]`, added to the scores, or None.

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
        self.num_heads, self.dropout, self.causal = num_heads, dropout, causal
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

        if self.cross:
            self.query = self.dense(hidden, hidden, "query")
            self.key_value = self.dense(context_shape[-1], 2 * hidden, "key_value")
        else:
            self.qkv = self.dense(hidden, 3 * hidden, "qkv")
        self.output_dense = self.dense(hidden, hidden, "output", self.output_divisor)
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
        visible = Visible(mask, sequence_ids, self.causal)
        source = context if self.cross and not known else inputs
        keys = source.shape[1] or ops.shape(source)[1]
        if cached_keys is not None:
            keys = cached_keys.shape[2] or ops.shape(cached_keys)[2]
        drops = self._drops(inputs, keys, training)
        if return_scores or position_bias is not None or cached_keys is not None:
            outputs = self._whole(inputs, context, visible, cache, known, drops, position_bias)
            outputs = outputs if return_scores else outputs[:-1]
            return outputs if len(outputs) > 1 else outputs[0]

        def computed(form: Form) -> Callable[[Tensor], Tensor]:
            def run(inputs: Tensor) -> Tensor:
                projected = self._projected(inputs, context, form.columns)
                return self._joined(form.attend(projected, visible, drops), form.columns)

            return run

        # Of an unknown number of rows one is counted.
        sizes = inputs.shape[0] or 1, self.num_heads, inputs.shape[1], source.shape[1]
        forms = self._forms(sizes, drops)
        runs = {form: computed(form) for form in forms}  # equal forms are one function
        on_tpu, on_gpu, elsewhere = (runs[form] for form in forms)
        return by_target(on_tpu, elsewhere, inputs, on_gpu=on_gpu)

    def _forms(self, sizes: tuple[int | None, ...], drops: Drops | None) -> tuple[Form, ...]:
        """Return the forms for a TPU, for a GPU, and elsewhere, by the sizes of the scores."""
        if not has_kernels():
            return (PLAIN if drops is not None else form_of("other", 1),) * 3
        scores = 0 if None in sizes else math.prod(sizes)
        elsewhere = form_of("cpu", scores)
        on_gpu = gpu is not None and gpu.fits(self.head_size, self.compute_dtype)
        return form_of("tpu", scores), form_of("gpu", scores) if on_gpu else elsewhere, elsewhere

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        return carried(None, inputs) if self.cross else fitting(previous_mask, inputs)

    def _projected(self, inputs: Tensor, context: Tensor | None, columns: bool) -> list[Tensor]:
        """Return queries, keys and values, as a `Form` takes them."""
        if self.cross:
            given = [(self.query, inputs, 1), (self.key_value, context, 2)]
        else:
            given = [(self.qkv, inputs, 3)]
        if columns:
            return [x for one in given for x in self._columns(*one)]
        return [self._project(*one) for one in given]

    def _joined(self, heads: Tensor, columns: bool = False) -> Tensor:
        """Return `[B, T, H]` of the heads, as a `Form` returns them."""
        last = self.output_dense
        if not columns:
            length = heads.shape[1] or ops.shape(heads)[1]
            flat = last(ops.reshape(heads, (-1, self.hidden_size)))  # [B*T, H]
            return ops.reshape(flat, (-1, length, self.hidden_size))
        heads = ops.reshape(heads, (-1, self.hidden_size, heads.shape[-1]))  # [B, H, T]
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
    ) -> tuple[Tensor, ...]:
        """Return the output `[B, T, H]`, the new cache and the probabilities."""
        *cached, cache_index = cache
        if self.cross:
            (q,) = _heads(self._project(self.query, inputs, 1))
            k, v = (ops.cast(x, q.dtype) for x in (cached if known else self.keys_values(context)))
        else:
            q, k, v = _heads(self._project(self.qkv, inputs, 3))  # each [B, N, T, D]
        new = ()
        if cached[0] is not None and not known:
            at = (0, 0, ops.cast(cache_index, "int32"), 0)
            new = tuple(
                ops.slice_update(old, at, ops.cast(x, old.dtype))  # [B, N, M, D]
                for old, x in zip(cached, (k, v), strict=True)
            )
            k, v = (ops.cast(x, q.dtype) for x in new)
        added = visible.bias(*(x.shape[2] or ops.shape(x)[2] for x in (q, k)), cache_index)
        if position_bias is not None:
            position_bias = ops.cast(position_bias, "float32")
            added = position_bias if added is None else added + position_bias
        heads, probabilities = plain_attention(q, k, v, added, drops)
        return self._joined(ops.transpose(heads, (0, 2, 1, 3))), *new, probabilities

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
        self, *arguments: Any, **named: Any
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, ...]:
        given = inspect.signature(self.call).bind(*arguments, **named).arguments
        inputs, context = given["inputs"], given.get("context")
        cache = tuple(given.get(x) for x in ("cached_keys", "cached_values", "cache_index"))
        self._check(context, cache, inputs.shape[1], given.get("sequence_ids"))
        outputs = [keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)]
        source = inputs.shape[1] if context is None else context.shape[1]
        if cache[0] is not None:
            if not self.cross:
                outputs += [keras.KerasTensor(x.shape, dtype=x.dtype) for x in cache[:2]]
            source = cache[0].shape[2]
        if given.get("return_scores", False):
            shape = (inputs.shape[0], self.num_heads, inputs.shape[1], source)
            outputs.append(keras.KerasTensor(shape, dtype="float32"))
        return tuple(outputs) if len(outputs) > 1 else outputs[0]


def _heads(projected: Tensor) -> list[Tensor]:
    """Return the parts of `[B, T, parts, N, D]`, each `[B, N, T, D]`."""
    parts = projected.shape[2]
    return ops.unstack(ops.transpose(projected, (2, 0, 3, 1, 4)), num=parts, axis=0)
