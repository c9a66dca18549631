"""Tiny instances of the layers with attention: rows of `conformance_table.ROWS`."""

from tests.conformance_row import (
    Array,
    B,
    C,
    F,
    H,
    M,
    N,
    Row,
    T,
    cache_at_real,
    everything,
    masked_time,
    masked_tokens,
    scores_at_real,
    token_time,
    tokens,
    weights_at_real,
)
from tfnlp import layers

cache = dict.fromkeys(("cached_keys", "cached_values"), Array((B, N, M, H // N)))
decoding = {"inputs": Array((B, 2, H)), **cache, "mask": Array((B, M), "bool")}
decoding_time = {"inputs": 1, **dict.fromkeys(cache, 2), "mask": 1}
decoded = {
    "options": {"cache_index": 3},
    "padded": tuple(cache),
    "keep": cache_at_real,
    "bf16": ("bfloat16",) * 3,
    "gradient": False,
}
scored = {
    "options": {"return_scores": True},
    "time": masked_time,
    "keep": scores_at_real,
    "bf16": ("bfloat16", "float32"),
}
packed = {
    "inputs": {**masked_tokens, "sequence_ids": Array((B, T), "int32", 2)},
    "time": {**masked_time, "sequence_ids": 1},
    "padded": ("inputs", "sequence_ids"),
}
attention_args = {"num_heads": N, "kernel_initializer": "he_normal", "output_divisor": 2.0}

source = {"keys": Array((B, M, C)), "mask": Array((B, M), "bool")}
source_time = {"inputs": 1, "keys": 1, "mask": 1}
memory = {"memory": Array((B, M, C)), "mask": Array((B, M), "bool")}
memory_time = {"inputs": 1, "memory": 1, "mask": 1}


def score_row(layer, args, width, **kwargs):
    return Row(
        layer.__name__,
        layer,
        args,
        {"inputs": Array((B, T, width)), **source},
        time=source_time,
        padded=("keys",),
        keep=weights_at_real,
        bf16=("bfloat16", "float32"),
        **kwargs,
    )


def decoder_row(name, args, **kwargs):
    return Row(
        f"AttentionLSTM {name}",
        layers.AttentionLSTM,
        {"units": C, **args},
        {**tokens, **memory},
        time=memory_time,
        keep=weights_at_real,
        bf16=("bfloat16", "float32", "float32"),
        **{"padded": ("memory",), **kwargs},
    )


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
    initial = {"kernel_initializer": "he_normal", "residual_divisor": 2.0}
    args = {**shape, "norm_epsilon": 1e-5, **initial, **args}
    return Row(f"TransformerBlock {name}", layers.TransformerBlock, args, inputs, **kwargs)


LOW_RANK = {"rank": 2, "matrices": ["query", "value", "attention_output", "output"]}
LOW_RANK.update(alpha=3.0, dropout=0.0)
ATTENTION_ROWS = [
    score_row(layers.AdditiveAttention, {"units": F}, H),
    score_row(layers.GeneralAttention, {}, H),
    score_row(layers.CosineAttention, {"scale": 4.0}, C),
    decoder_row("additive", {"score": "additive"}, xla_gradient=False),
    decoder_row("additive training", {"score": "additive"}, options={"training": True}),
    decoder_row(
        "input feeding training",
        {"score": "general", "num_layers": 2, "input_feeding": True},
        options={"training": True},
    ),
    attention_row("self", {}, masked_tokens, time=masked_time),
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
    attention_row("packed", {}, **packed),
    attention_row("low rank", {"low_rank": LOW_RANK}, masked_tokens, time=masked_time),
    attention_row("scores", {}, masked_tokens, **scored),
    attention_row("cache masked", {"causal": True}, decoding, time=decoding_time, **decoded),
    *[
        block_row(
            f"{'pre' if norm_first else 'post'}-norm {activation}{' causal' if causal else ''}",
            {"norm_first": norm_first, "activation": activation, "causal": causal},
            masked_tokens,
            time=masked_time,
        )
        for norm_first, activation, causal in (  # each pair of values comes once
            (False, "gelu", False),
            (False, "gelu_tanh", True),
            (True, "gelu", True),
            (True, "gelu_tanh", False),
        )
    ],
    block_row("low rank", {"low_rank": LOW_RANK}, masked_tokens, time=masked_time),
    *[
        block_row(
            f"{'pre' if norm_first else 'post'}-norm cross scores",
            {"norm_first": norm_first, "activation": "relu", "causal": True},
            {**tokens, "context": Array((B, M, C)), "context_mask": Array((B, M), "bool")},
            options={"return_scores": True},
            time={**token_time, "context": 1, "context_mask": 1},
            padded=("context",),
            mask="context_mask",
            keep=weights_at_real,
            bf16=("bfloat16", "float32"),
        )
        for norm_first in (False, True)
    ],
]

DOT_ROW = score_row(layers.DotAttention, {}, C, weights=False)
DROPOUT_ROWS = [
    decoder_row(
        "dropout",
        {"num_layers": 2, "input_feeding": True, "dropout": 0.3},
        options={"training": True},
        padded=(),
    ),
    attention_row(
        "dropout", {"dropout": 0.3}, masked_tokens, options={"training": True}, padded=()
    ),
    block_row(
        "dropout",
        {"dropout": 0.3, "attention_dropout": 0.2},
        masked_tokens,
        options={"training": True},
        padded=(),
    ),
]
