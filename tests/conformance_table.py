"""Tiny instances of every layer, one `Row` each, for `conformance_test.py`."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np

from tfnlp import layers

B, T, H, V, N, F, M, C, P = 4, 5, 8, 11, 2, 12, 6, 6, 3  # all different where they could mix up


@dataclasses.dataclass(frozen=True)
class Array:
    """What one tensor argument of a call looks like; integers are drawn below `limit`."""

    shape: tuple
    dtype: str = "float32"
    limit: int = 0

    def draw(self, rng):
        if self.dtype == "bool":  # holes at other places in each row, never a row of holes
            rows, columns = np.indices(self.shape)
            return (rows + columns) % 3 != 0
        if self.limit:
            return rng.integers(0, self.limit, self.shape).astype(self.dtype)
        return rng.standard_normal(self.shape).astype(self.dtype)


def at_real(outputs, real):
    """The default `Row.keep`: outputs `[B, T, ...]` at real positions."""
    return [y[real] for y in outputs]


def everything(outputs, real):
    """For outputs without a time axis: all of them."""
    return outputs


def scores_at_real(outputs, real):
    """For `[B, T, H]` and `[B, N, T, S]`: real queries, and their scores of real keys."""
    return [outputs[0][real]] + [
        scores[:, r][:, :, r] for scores, r in zip(outputs[1], real, strict=True)
    ]


def cache_at_real(outputs, real):
    """For `[B, T, H]` and a cache `[B, 2, N, M, D]`: all queries, the real slots."""
    return [outputs[0], np.moveaxis(outputs[1], 3, 1)[real]]


def first_positions(outputs, real):
    """For `[1, T, H]`, the same for all examples: the T positions that were there before."""
    return [outputs[0][:, :T]]


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer class, its arguments, and a call.

    `inputs` are the tensor arguments by name, `options` the other arguments of the call, `time`
    the axis that may have any length, by input name, `padded` the inputs that can be lengthened
    by padding (`mask` is lengthened with them), `keep(outputs, real)` what padding must not
    change, `bf16` the dtypes of the outputs under a bf16 policy. `gradient` is False for decoding
    with a cache: TensorFlow has no gradient for the op that writes into one.
    """

    name: str
    layer: type
    args: dict
    inputs: dict
    options: dict = dataclasses.field(default_factory=dict)
    time: dict = dataclasses.field(default_factory=dict)
    padded: tuple = ("inputs",)
    keep: Callable = at_real
    bf16: tuple = ("bfloat16",)
    gradient: bool = True

    def make(self, **kwargs):
        return self.layer(**self.args, **kwargs)

    def draw(self, rng):
        return {name: spec.draw(rng) for name, spec in self.inputs.items()}

    def call(self, layer, inputs, **kwargs):
        """Calls the layer; always a list of outputs."""
        first, *others = inputs
        named = {name: inputs[name] for name in others}
        return keras.tree.flatten(layer(inputs[first], **named, **self.options, **kwargs))


tokens = {"inputs": Array((B, T, H))}
masked_tokens = {**tokens, "mask": Array((B, T), "bool")}
token_time = {"inputs": 1}
masked_time = {"inputs": 1, "mask": 1}
decoding = {"inputs": Array((B, 2, H)), "cache": Array((B, 2, N, M, H // N))}
masked_decoding = {**decoding, "mask": Array((B, M), "bool")}
decoding_time = {"inputs": 1, "cache": 3}
attention_args = {"num_heads": N, "kernel_initializer": "he_normal"}


def attention_row(name, args, inputs, **kwargs):
    return Row(
        f"MultiHeadAttention {name}",
        layers.MultiHeadAttention,
        {**attention_args, **args},
        inputs,
        **kwargs,
    )


def block_row(name, args, inputs, **kwargs):
    shape = dict(num_heads=N, intermediate_size=F, dropout=0.0, attention_dropout=0.0)
    args = {**shape, "norm_epsilon": 1e-5, "kernel_initializer": "he_normal", **args}
    return Row(f"TransformerBlock {name}", layers.TransformerBlock, args, inputs, **kwargs)


ROWS = [
    Row("LayerNorm", layers.LayerNorm, {"epsilon": 1e-5}, tokens, time=token_time),
    Row(
        "TokenEmbedding",
        layers.TokenEmbedding,
        {"vocab_size": V, "hidden_size": H, "initializer": "he_normal"},
        {"inputs": Array((B, T), "int32", V)},
        time=token_time,
    ),
    Row(
        "TokenEmbedding reverse",
        layers.TokenEmbedding,
        {"vocab_size": V, "hidden_size": H},
        tokens,
        options={"reverse": True},
        time=token_time,
        bf16=("float32",),
    ),
    Row(
        "PositionEmbedding",
        layers.PositionEmbedding,
        {"max_positions": T + 2, "initializer": "he_normal"},
        tokens,
        time=token_time,
        keep=first_positions,
    ),
    Row(
        "PositionEmbedding start",
        layers.PositionEmbedding,
        {"max_positions": T + 4},
        tokens,
        options={"start": 2},
        time=token_time,
        keep=first_positions,
    ),
    Row(
        "SegmentEmbedding",
        layers.SegmentEmbedding,
        {"num_segments": 3, "hidden_size": H, "initializer": "he_normal"},
        {"inputs": Array((B, T), "int32", 3)},
        time=token_time,
    ),
    attention_row("self", {}, masked_tokens, time=masked_time),
    attention_row("unmasked", {}, tokens, time=token_time, padded=()),
    attention_row("causal", {"causal": True}, masked_tokens, time=masked_time),
    attention_row("causal unmasked", {"causal": True}, tokens, time=token_time),
    attention_row(
        "cross",
        {},
        {**tokens, "context": Array((B, M, C)), "mask": Array((B, M), "bool")},
        time={"inputs": 1, "context": 1, "mask": 1},
        padded=("context",),
        keep=everything,
    ),
    attention_row(
        "scores",
        {},
        masked_tokens,
        options={"return_scores": True},
        time=masked_time,
        keep=scores_at_real,
        bf16=("bfloat16", "float32"),
    ),
    attention_row(
        "cache",
        {"causal": True},
        decoding,
        options={"cache_index": 3},
        time=decoding_time,
        padded=("cache",),
        keep=cache_at_real,
        bf16=("bfloat16", "bfloat16"),
        gradient=False,
    ),
    attention_row(
        "cache masked",
        {"causal": True},
        masked_decoding,
        options={"cache_index": 3},
        time={**decoding_time, "mask": 1},
        padded=("cache",),
        keep=cache_at_real,
        bf16=("bfloat16", "bfloat16"),
        gradient=False,
    ),
    *[
        block_row(
            f"{'pre' if norm_first else 'post'}-norm {activation}{' causal' if causal else ''}",
            {"norm_first": norm_first, "activation": activation, "causal": causal},
            masked_tokens,
            time=masked_time,
        )
        for norm_first in (False, True)
        for activation in ("gelu", "gelu_tanh")
        for causal in (False, True)
    ],
    block_row(
        "cache",
        {"causal": True, "norm_first": True},
        masked_decoding,
        options={"cache_index": 3},
        time={**decoding_time, "mask": 1},
        padded=("cache",),
        keep=cache_at_real,
        bf16=("bfloat16", "bfloat16"),
        gradient=False,
    ),
    block_row(
        "scores",
        {},
        masked_tokens,
        options={"return_scores": True},
        time=masked_time,
        keep=scores_at_real,
        bf16=("bfloat16", "float32"),
    ),
    Row(
        "Pooler",
        layers.Pooler,
        {"kernel_initializer": "he_normal"},
        tokens,
        time=token_time,
        keep=everything,
    ),
    Row(
        "MaskedLMHead",
        layers.MaskedLMHead,
        {"activation": "gelu_tanh", "norm_epsilon": 1e-5, "kernel_initializer": "he_normal"},
        {**tokens, "positions": Array((B, P), "int32", T)},
        time={"inputs": 1, "positions": 1},
        keep=everything,
    ),
    Row("LogitBias", layers.LogitBias, {}, tokens, time=token_time, bf16=("float32",)),
    Row(
        "NextSentenceHead",
        layers.NextSentenceHead,
        {"kernel_initializer": "he_normal"},
        {"inputs": Array((B, H))},
        padded=(),
        bf16=("float32",),
    ),
]


LEARNING = [row for row in ROWS if row.gradient]
