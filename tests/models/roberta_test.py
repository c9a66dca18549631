"""RoBERTa against its formula in float64 numpy."""

import numpy as np

from tests.models.bert_reference import (
    CLOSE,
    SIZE,
    T,
    batch,
    bert_reference,
    randomized,
)
from tfnlp.models import roberta

SMALL = dict(**SIZE, max_positions=T)


def small(**more):
    return randomized(roberta(**{**SMALL, **more}), np.random.default_rng(3))


def test_equals_the_formula():
    model, inputs = small(), batch(np.random.default_rng(0))
    outputs = model(inputs)
    layers = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    mask = inputs["input_mask"] * (inputs["input_word_ids"] != 1)  # padding that a text has, too
    assert (mask != inputs["input_mask"]).any()
    positions = np.cumsum(mask, 1) * mask + 1  # rows of the table: two are before the first
    inputs = {**inputs, "input_type_ids": 0 * mask}
    expected, _ = bert_reference(inputs, model, epsilon=1e-5, positions=positions)
    for got, want in zip(layers, expected, strict=True):
        np.testing.assert_allclose(got, want, **CLOSE)
    assert "pooled_output" not in outputs and "pooled_output" in small(pooler=True).output
