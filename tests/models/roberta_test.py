"""RoBERTa against its formula in float64 numpy."""

import numpy as np
import pytest

from tests.layers import reference
from tests.models.bert_reference import CLOSE, SIZE, B, T, batch, bert_reference, randomized
from tfnlp.models import roberta, roberta_pretrainer
from tfnlp.models.shapes import weight_shapes

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


def test_a_text_may_have_as_many_tokens_as_positions():
    model = small()
    assert model.get_layer("position_embedding").embeddings.shape[0] == T + 2
    with pytest.raises(ValueError, match=f"sequence of {T + 1} tokens"):
        roberta(**SMALL).get_layer("position_embedding")(np.zeros((1, T + 1, 16), "float32"))


def test_padding_and_segments_change_nothing():
    model, inputs = small(), batch(np.random.default_rng(1))
    want = model(inputs)["sequence_output"].numpy()
    rng, mask = np.random.default_rng(2), inputs["input_mask"].astype(bool)
    changed = {
        "input_word_ids": np.where(mask, inputs["input_word_ids"], rng.integers(0, 23, (B, T))),
        "input_mask": inputs["input_mask"],
        "input_type_ids": rng.integers(0, 5, (B, T)),
    }
    got = model({name: value.astype("int32") for name, value in changed.items()})
    np.testing.assert_allclose(got["sequence_output"].numpy()[mask], want[mask], rtol=0, atol=1e-6)
    length = int(inputs["input_mask"][1].sum())  # padding before the text
    row = {name: np.roll(value[1:2], T - length, 1) for name, value in inputs.items()}
    got = model(row)["sequence_output"].numpy()
    np.testing.assert_allclose(got[0, -length:], want[1, :length], rtol=0, atol=1e-5)


def test_the_published_number_of_parameters():
    def build(**sizes):
        return roberta_pretrainer(roberta(**sizes))

    shapes = weight_shapes(build, {})
    # Hugging Face's RobertaForMaskedLM has so many.
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == 124_697_433


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
