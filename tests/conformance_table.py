"""Tiny instances of every layer, one `Row` each, for `conformance_test.py`."""

import pytest

from tests.conformance_attention import ATTENTION_ROWS, DOT_ROW, DROPOUT_ROWS
from tests.conformance_row import (
    Array,
    B,
    C,
    F,
    H,
    P,
    Row,
    T,
    V,
    all_but_the_last,
    at_real,
    everything,
    first_positions,
    masked_time,
    masked_tokens,
    state_too,
    token_time,
    tokens,
)
from tests.conformance_word_losses import WORD_LOSS_ROWS
from tfnlp import layers

stack = {f"layer_{i}": Array((B, T, H)) for i in range(3)}
stack_time = dict.fromkeys(stack, 1)
# Clips that are reached, by the cell and by the output, but not everywhere.
lstm_args = dict(units=F, projection_size=H, cell_clip=0.7, projection_clip=0.5)
bilm_args = dict(lstm_args, num_layers=2, dropout=0.0)
resets = {"resets": Array((B, T), "bool", 4)}
lstm_dtypes = ("bfloat16", "float32")
bilm_dtypes = ("bfloat16", "bfloat16", "float32")

words = {"inputs": Array((B, T), "int32", V)}
he = {"initializer": "he_normal"}
kernel_he = {"kernel_initializer": "he_normal"}
table = {"vocab_size": V, "hidden_size": H}

ROWS = [
    *WORD_LOSS_ROWS,
    Row("LayerNorm", layers.LayerNorm, {"epsilon": 1e-5}, tokens, time=token_time),
    Row(
        "LowRankUpdate",
        layers.LowRankUpdate,
        {"rank": 2, "units": 3, "count": 3, "parts": [0, 2], "alpha": 4.0},
        tokens,
        time=token_time,
    ),
    Row("TokenEmbedding", layers.TokenEmbedding, {**table, **he}, words, time=token_time),
    Row(
        "TokenEmbedding reverse",
        layers.TokenEmbedding,
        table,
        tokens,
        options={"reverse": True},
        time=token_time,
        bf16=("float32",),
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
        "PositionEmbedding offset",
        layers.PositionEmbedding,
        {"max_positions": T + 2, "offset": 2, **he},
        tokens,
        time=token_time,
        keep=first_positions,
    ),
    *[
        Row(
            f"SinusoidalPositions {name}",
            layers.SinusoidalPositions,
            {"max_wavelength": 500.0},
            {**tokens, **more},
            time=dict.fromkeys(("inputs", *more), 1),
            padded=("inputs", *more),
            keep=at_real if more else first_positions,
            gradient=False,
            weights=False,
        )
        for name, more in (("all", {}), ("positions", {"positions": Array((B, T), "int32", 90)}))
    ],
    Row(
        "SegmentEmbedding",
        layers.SegmentEmbedding,
        {"num_segments": 3, "hidden_size": H, **he},
        {"inputs": Array((B, T), "int32", 3)},
        time=token_time,
    ),
    *ATTENTION_ROWS,
    Row("Pooler", layers.Pooler, kernel_he, tokens, time=token_time, keep=everything),
    Row(
        "MaskedLMHead",
        layers.MaskedLMHead,
        {"activation": "gelu_tanh", "norm_epsilon": 1e-5, "units": H + 3, **kernel_he},
        {**tokens, "positions": Array((B, P), "int32", T)},
        time={"inputs": 1, "positions": 1},
        keep=everything,
    ),
    Row(
        "DiscriminatorHead",
        layers.DiscriminatorHead,
        {"activation": "gelu_tanh", **kernel_he},
        tokens,
        time=token_time,
        bf16=("float32",),
    ),
    Row("LogitBias", layers.LogitBias, {}, tokens, time=token_time, bf16=("float32",)),
    Row(
        "NextSentenceHead",
        layers.NextSentenceHead,
        kernel_he,
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
    *(
        Row(
            f"SentencePooling {pooling}",
            layers.SentencePooling,
            {"pooling": pooling, "normalize": pooling == "last"},
            masked_tokens,
            time=masked_time,
            keep=everything,
            bf16=("float32",),
            gradient=False,
            weights=False,
        )
        for pooling in ("max", "last")
    ),
    Row("WordEmbedding", layers.WordEmbedding, table, words, time=token_time),
    Row(
        "SubwordEmbedding",
        layers.SubwordEmbedding,
        {"vocab_size": V, "hidden_size": H, "buckets": 7, "most_subwords": 3},
        words,
        time=token_time,
    ),
    Row(
        "CRF",
        layers.CRF,
        {"num_tags": H, "rate": 3.0},
        {**tokens, "tags": Array((B, T), "int32", H), "mask": Array((B, T), "bool")},
        time={**masked_time, "tags": 1},
        padded=("inputs", "tags"),
        keep=everything,
        bf16=("float32",),
    ),
]


LEARNING = [row for row in ROWS if row.gradient]

# Of layers without weights most of the table says nothing.
UNWEIGHTED = [
    Row(
        "Dropout training",
        layers.Dropout,
        {"rate": 0.3},
        tokens,
        options={"training": True},
        padded=(),
    ),
    Row(
        "SentenceBoundaries",
        layers.SentenceBoundaries,
        {"begin": [7, 8, 9], "end": [7, 5, 9]},
        {"inputs": Array((B, T, 3), "int32", V)},
        padded=(),
        bf16=("int32",),
        gradient=False,
        weights=False,
    ),
    DOT_ROW,
    *[
        Row(
            f"ReplacedTokens{' training' if training else ''}",
            layers.ReplacedTokens,
            {},
            {
                **words,
                "positions": Array((B, P), "int32", T),
                "targets": Array((B, P), "int32", V),
                "weights": Array((B, P)),
                "logits": Array((B, P, V)),
            },
            options={"training": training},
            padded=(),
            bf16=("int32", "float32"),
            gradient=False,
            weights=False,
        )
        for training in (False, True)
    ],
]

# Layers that draw random numbers: their values can be compared where the draws are the same.
DRAWING = [
    *(
        Row(
            f"{softmax.__name__} training",
            softmax,
            {"vocab_size": V, "num_samples": 4},
            {"inputs": Array((B, T, H)), "targets": Array((B, T), "int32", V)},
            options={"training": True},
            padded=(),
            bf16=("float32",),
        )
        for softmax in (layers.SampledSoftmax, layers.NoiseContrastiveSoftmax)
    ),
    Row(
        "BiLM dropout",
        layers.BiLM,
        {**bilm_args, "dropout": 0.3},
        tokens,
        options={"training": True},
        padded=(),
        bf16=bilm_dtypes,
    ),
    *DROPOUT_ROWS,
]

# A row of each kind of computation, for what takes long to compile.
SAMPLE = {
    "SkipGramLoss",
    "SampledSoftmax training",
    "MultiHeadAttention cache masked",
    "TransformerBlock post-norm gelu",
    "AttentionLSTM input feeding training",
    "CharCNN",
    "ProjectedLSTM everything training",
    "CRF",
}


def table(rows, sampled=False):
    """A test of each row; if `sampled`, slow for the rows of the sample and long for the others."""

    def marks(row):
        if not sampled:
            return ()
        return pytest.mark.slow if row.name in SAMPLE else pytest.mark.long

    marked = [pytest.param(row, marks=marks(row), id=row.name.replace(" ", "-")) for row in rows]
    return pytest.mark.parametrize("row", marked)
