"""RoBERTa against its formula in float64 numpy."""

import numpy as np

from tests.layers import reference
from tests.models.bert_reference import CLOSE, SIZE, T, batch, bert_reference, randomized
from tfnlp.models import roberta, roberta_pretrainer

SMALL = dict(**SIZE, max_positions=T)


def small(**more):
    return randomized(roberta(**{**SMALL, **more}), np.random.default_rng(3))


def formula(inputs, model):
    """BERT's formula on a table whose row t holds the position of token t."""
    mask = inputs["input_mask"]
    tables = {v.path: v.numpy() for v in model.weights}
    rows = tables["position_embedding/embeddings"][np.cumsum(mask, 1) * mask + 1]  # [B, T, H]
    layers = []
    for row in range(len(mask)):
        one = {name: value[row : row + 1] for name, value in inputs.items()}
        one["input_type_ids"] = np.zeros_like(one["input_type_ids"])
        layers.append(bert_reference(one, _with_positions(model, rows[row]), epsilon=1e-5)[0])
    return [np.concatenate(layer) for layer in zip(*layers, strict=True)]


class _with_positions:
    """The weights of a model with another table of positions."""

    def __init__(self, model, rows):
        self.weights = [_Weight(v.path, v.numpy()) for v in model.weights]
        for weight in self.weights:
            if weight.path == "position_embedding/embeddings":
                weight.value = rows


class _Weight:
    def __init__(self, path, value):
        self.path, self.value = path, value

    def numpy(self):
        return self.value


def test_equals_the_formula():
    model, inputs = small(), batch(np.random.default_rng(0))
    outputs = model(inputs)
    layers = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    for got, want in zip(layers, formula(inputs, model), strict=True):
        np.testing.assert_allclose(got, want, **CLOSE)
    assert "pooled_output" not in outputs and "pooled_output" in small(pooler=True).output


def test_the_head_is_berts():
    inputs = batch(np.random.default_rng(4), positions=True)
    model = randomized(roberta_pretrainer(roberta(**SMALL)), np.random.default_rng(5))
    outputs = model(inputs)
    assert "next_sentence_logits" not in outputs
    w = {v.path: np.asarray(v.numpy(), "float64") for v in model.weights}
    rows = np.take_along_axis(
        np.asarray(outputs["sequence_output"], "float64"),
        inputs["masked_lm_positions"][..., None],
        1,
    )
    hidden = reference.gelu(reference.dense(rows, reference.inside(w, "masked_lm_head/dense")))
    hidden = reference.layer_norm(hidden, reference.inside(w, "masked_lm_head/norm"), 1e-5)
    want = hidden @ w["token_embedding/embeddings"].T + w["masked_lm_bias/bias"]
    np.testing.assert_allclose(outputs["mlm_logits"], want, **CLOSE)
