"""Tiny instances of every layer, one `Row` each, for `conformance_test.py`."""

from tests.conformance_row import (
    Array,
    Row,
    T,
    all_but_the_last,
    at_real,
    cache_at_real,
    everything,
    first_positions,
    scores_at_real,
    state_too,
    weights_at_real,
)
from tfnlp import layers

B, H, V, N, F, M, C, P = 4, 8, 11, 2, 12, 6, 6, 3  # all different where they could mix up

tokens = {"inputs": Array((B, T, H))}
masked_tokens = {**tokens, "mask": Array((B, T), "bool")}
token_time = {"inputs": 1}
masked_time = {"inputs": 1, "mask": 1}
cache = dict.fromkeys(("cached_keys", "cached_values"), Array((B, N, M, H // N)))
decoding = {"inputs": Array((B, 2, H)), **cache}
masked_decoding = {**decoding, "mask": Array((B, M), "bool")}
decoding_time = {"inputs": 1, **dict.fromkeys(cache, 2)}
attention_args = {"num_heads": N, "kernel_initializer": "he_normal"}


stack = {f"layer_{i}": Array((B, T, H)) for i in range(3)}
stack_time = dict.fromkeys(stack, 1)
# Clips that are reached, by the cell and by the output, but not everywhere.
lstm_args = dict(units=F, projection_size=H, cell_clip=0.7, projection_clip=0.5)
bilm_args = dict(lstm_args, num_layers=2, dropout=0.0)
resets = {"resets": Array((B, T), "bool", 4)}
lstm_dtypes = ("bfloat16", "float32")
bilm_dtypes = ("bfloat16", "bfloat16", "float32")


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
        padded=("memory",),
        keep=weights_at_real,
        bf16=("bfloat16", "float32", "float32"),
        **kwargs,
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
        "PositionEmbedding positions",
        layers.PositionEmbedding,
        {"max_positions": 7},
        {"inputs": Array((B, T, H)), "positions": Array((B, T), "int32", 7)},
        time={"inputs": 1, "positions": 1},
        padded=("inputs", "positions"),
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
    *[
        Row(
            f"SinusoidalPositions {name}",
            layers.SinusoidalPositions,
            {"max_wavelength": 500.0},
            {**tokens, **more},
            options=options,
            time=dict.fromkeys(("inputs", *more), 1),
            padded=("inputs", *more),
            keep=at_real if more else first_positions,
            gradient=False,
            weights=False,
        )
        for name, more, options in (
            ("all", {}, {}),
            ("start", {}, {"start": 70}),
            ("positions", {"positions": Array((B, T), "int32", 90)}, {}),
        )
    ],
    Row(
        "SegmentEmbedding",
        layers.SegmentEmbedding,
        {"num_segments": 3, "hidden_size": H, "initializer": "he_normal"},
        {"inputs": Array((B, T), "int32", 3)},
        time=token_time,
    ),
    score_row(layers.AdditiveAttention, {"units": F}, H),
    score_row(layers.GeneralAttention, {}, H),
    score_row(layers.CosineAttention, {"scale": 4.0}, C),
    decoder_row("additive", {"score": "additive"}, xla_gradient=False),
    decoder_row(
        "additive training",
        {"score": "additive"},
        options={"training": True},
    ),
    decoder_row(
        "input feeding training",
        {"score": "general", "num_layers": 2, "input_feeding": True},
        options={"training": True},
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
        padded=tuple(cache),
        keep=cache_at_real,
        bf16=("bfloat16",) * 3,
        gradient=False,
    ),
    attention_row(
        "cache masked",
        {"causal": True},
        masked_decoding,
        options={"cache_index": 3},
        time={**decoding_time, "mask": 1},
        padded=tuple(cache),
        keep=cache_at_real,
        bf16=("bfloat16",) * 3,
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
        padded=tuple(cache),
        keep=cache_at_real,
        bf16=("bfloat16",) * 3,
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
    *[
        block_row(
            f"{'pre' if norm_first else 'post'}-norm cross{' scores' if scores else ''}",
            {"norm_first": norm_first, "activation": "relu", "causal": True},
            {**tokens, "context": Array((B, M, C)), "context_mask": Array((B, M), "bool")},
            options={"return_scores": scores},
            time={**token_time, "context": 1, "context_mask": 1},
            padded=("context",),
            mask="context_mask",
            keep=weights_at_real if scores else everything,
            bf16=("bfloat16", "float32")[: 1 + scores],
        )
        for norm_first, scores in ((False, False), (True, False), (False, True))
    ],
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
    Row("Highway", layers.Highway, {"activation": "tanh"}, tokens, time=token_time),
    Row(
        "CharCNN",
        layers.CharCNN,
        {
            "num_characters": V,
            "embedding_size": P,
            "filters": ((1, 4), (3, 5)),
            "activation": "tanh",
            "num_highway": 1,
            "projection_size": H,
        },
        {"inputs": Array((B, T, C), "int32", V)},
        time=token_time,
    ),
    Row(
        "ProjectedLSTM",
        layers.ProjectedLSTM,
        {"units": F, "projection_size": P},
        tokens,
        time=token_time,
        keep=all_but_the_last,
        bf16=lstm_dtypes,
        xla_gradient=False,
    ),
    *[
        Row(
            f"ProjectedLSTM everything{' training' if training else ''}",
            layers.ProjectedLSTM,
            {**lstm_args, "residual": True},
            {**masked_tokens, "initial_state": Array((B, F + H)), **resets},
            options={"training": training},
            time={**masked_time, "resets": 1},
            keep=state_too,
            bf16=lstm_dtypes,
            xla_gradient=training,
        )
        for training in (False, True)
    ],
    Row(
        "ProjectedLSTM without projection training",
        layers.ProjectedLSTM,
        {**lstm_args, "projection_size": None},
        {**masked_tokens, "initial_state": Array((B, 2 * F))},
        options={"training": True},
        time=masked_time,
        keep=state_too,
        bf16=lstm_dtypes,
    ),
    Row(
        "BiLM masked",
        layers.BiLM,
        {**bilm_args, "num_layers": 1},
        masked_tokens,
        time=masked_time,
        keep=state_too,
        bf16=lstm_dtypes,
        xla_gradient=False,
    ),
    Row(
        "BiLM windows training",
        layers.BiLM,
        bilm_args,
        {
            **tokens,
            "initial_state": Array((B, 4, F + H)),
            "backward_inputs": Array((B, T, H)),
            **resets,
        },
        options={"training": True},
        time={**token_time, "backward_inputs": 1, "resets": 1},
        padded=("inputs", "backward_inputs"),
        keep=all_but_the_last,
        bf16=bilm_dtypes,
    ),
    Row("ScalarMix", layers.ScalarMix, {}, stack, time=stack_time, padded=tuple(stack), listed=3),
    Row(
        "ScalarMix layer norm",
        layers.ScalarMix,
        {"layer_norm": True, "l2": 0.1},
        {**stack, "mask": Array((B, T), "bool")},
        time={**stack_time, "mask": 1},
        padded=tuple(stack),
        listed=3,
    ),
    Row(
        "ScalarMix last",
        layers.ScalarMix,
        {"last_only": True},
        stack,
        time=stack_time,
        padded=tuple(stack),
        listed=3,
    ),
    Row(
        "WordEmbedding",
        layers.WordEmbedding,
        {"vocab_size": V, "hidden_size": H},
        {"inputs": Array((B, T), "int32", V)},
        time=token_time,
    ),
    Row(
        "SubwordEmbedding",
        layers.SubwordEmbedding,
        {"vocab_size": V, "hidden_size": H, "buckets": 7, "most_subwords": 3},
        {"inputs": Array((B, T), "int32", V)},
        time=token_time,
    ),
    *[
        Row(
            loss.__name__,
            loss,
            {"vocab_size": V, "window": 1, "negatives": 3},
            {
                **tokens,
                "word_ids": Array((B, T), "int32", V),
                **dict.fromkeys(("left", "right"), Array((B, T - 2), "int32", 2)),
                "negative_ids": Array((B, M), "int32", V),
            },
            padded=(),
            keep=everything,
            bf16=("float32",),
        )
        for loss in (layers.SkipGramLoss, layers.CBOWLoss)
    ],
    # Without `training`, where it is random: tests/layers/sampled_softmax_test.py.
    Row(
        "SampledSoftmax",
        layers.SampledSoftmax,
        {"vocab_size": V, "num_samples": 4},
        {"inputs": Array((B, T, P, H)), "targets": Array((B, T, P), "int32", V)},
        time={"inputs": 1, "targets": 1},
        padded=("inputs", "targets"),
        bf16=("float32",),
    ),
]


LEARNING = [row for row in ROWS if row.gradient]
