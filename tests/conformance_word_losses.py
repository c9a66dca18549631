"""Tiny instances of losses over words: rows of `conformance_table.ROWS`."""

from tests.conformance_row import (
    Array,
    B,
    H,
    M,
    P,
    Row,
    T,
    V,
    everything,
    token_time,
    tokens,
)
from tfnlp import layers

windows = {
    **tokens,
    "word_ids": Array((B, T), "int32", V),
    **dict.fromkeys(("left", "right"), Array((B, T - 2), "int32", 2)),
}
WORD_LOSS_ROWS = [
    *[
        Row(
            loss.__name__,
            loss,
            {"vocab_size": V, "window": 1, "negatives": 3},
            {**windows, "negative_ids": Array((B, M), "int32", V)},
            padded=(),
            keep=everything,
            bf16=("float32",),
        )
        for loss in (
            layers.SkipGramLoss,
            layers.CBOWLoss,
            layers.NCESkipGramLoss,
            layers.NCECBOWLoss,
        )  # fmt: skip
    ],
    *[
        Row(
            loss.__name__,
            loss,
            {"vocab_size": V, "window": 1, "depth": 5},
            windows,
            padded=(),
            keep=everything,
            bf16=("float32",),
        )
        for loss in (layers.HierarchicalSkipGramLoss, layers.HierarchicalCBOWLoss)
    ],
    Row(
        "GloVeLoss",
        layers.GloVeLoss,
        {"vocab_size": V, "x_max": 1.0},
        {
            "inputs": Array((B, H)),
            **dict.fromkeys(("word_ids", "context_ids"), Array((B,), "int32", V)),
            "counts": Array((B,)),
        },
        padded=(),
        keep=everything,
        bf16=("float32",),
    ),
    # Without `training`, where it is random: tests/layers/sampled_softmax_test.py.
    *[
        Row(
            softmax.__name__,
            softmax,
            {"vocab_size": V, **arguments},
            {"inputs": Array((B, T, P, H)), "targets": Array((B, T, P), "int32", V)},
            time={"inputs": 1, "targets": 1},
            padded=("inputs", "targets"),
            bf16=("float32",),
        )
        for softmax, arguments in (
            (layers.SampledSoftmax, {"num_samples": 4}),
            (layers.NoiseContrastiveSoftmax, {"num_samples": 4}),
            (layers.HierarchicalSoftmax, {"depth": 5}),
        )
    ],
    Row(
        "HierarchicalSoftmax of all words",
        layers.HierarchicalSoftmax,
        {"vocab_size": V},
        tokens,
        time=token_time,
        bf16=("float32",),
    ),
]
