import numpy as np
import pytest

from tests.models.bert_reference import CLOSE, SMALL, P, T, V, batch, bert_reference, small
from tfnlp.models import (
    bert,
    bert_pretrainer,
)


@pytest.mark.parametrize("activation, epsilon", [("gelu", 1e-12), ("gelu_tanh", 0.1)])
def test_formula(activation, epsilon):
    rng = np.random.default_rng(0)
    model = small(rng, activation=activation, norm_epsilon=epsilon)
    inputs = batch(rng)
    layers, pooled = bert_reference(inputs, model, activation, epsilon)
    outputs = model(inputs)
    real = inputs["input_mask"].astype(bool)
    assert len(layers) == 1 + SMALL["num_layers"]
    np.testing.assert_allclose(
        np.asarray(outputs["embedding_output"])[real], layers[0][real], **CLOSE
    )
    for got, expected in zip(outputs["encoder_outputs"], layers[1:], strict=True):
        np.testing.assert_allclose(np.asarray(got)[real], expected[real], **CLOSE)
    np.testing.assert_array_equal(outputs["sequence_output"], outputs["encoder_outputs"][-1])
    np.testing.assert_allclose(outputs["pooled_output"], pooled, **CLOSE)


def test_names_and_shapes_of_inputs_and_outputs():
    model = bert_pretrainer(bert(**SMALL, seq_length=T), max_predictions=P)
    assert {k: (v.shape, v.dtype) for k, v in model.input.items()} == {
        "input_word_ids": ((None, T), "int32"),
        "input_mask": ((None, T), "int32"),
        "input_type_ids": ((None, T), "int32"),
        "masked_lm_positions": ((None, P), "int32"),
    }
    outputs = dict(model.output)
    layers = outputs.pop("encoder_outputs")
    assert [y.shape for y in layers] == [(None, T, 16)] * 3
    assert {k: v.shape for k, v in outputs.items()} == {
        "sequence_output": (None, T, 16),
        "embedding_output": (None, T, 16),
        "pooled_output": (None, 16),
        "mlm_logits": (None, P, V),
        "next_sentence_logits": (None, 2),
    }
    anything = bert_pretrainer(bert(**SMALL))
    assert anything.output["mlm_logits"].shape == (None, None, V)
    assert anything.output["sequence_output"].shape == (None, None, 16)


def test_parts_can_be_left_out():
    encoder = bert(**SMALL, pooler=False)
    assert set(encoder.output) == {"sequence_output", "encoder_outputs", "embedding_output"}
    model = bert_pretrainer(encoder, next_sentence=False)
    assert set(model.output) == {*encoder.output, "mlm_logits"}
    with_pooler = bert_pretrainer(bert(**SMALL), masked_lm=False)
    assert set(with_pooler.input) == {"input_word_ids", "input_mask", "input_type_ids"}
    assert "next_sentence_logits" in with_pooler.output and "mlm_logits" not in with_pooler.output


def test_too_long_a_sequence():
    model = bert(**SMALL)
    ids = np.zeros((2, 13), "int32")
    inputs = {n: ids for n in ("input_word_ids", "input_mask", "input_type_ids")}
    with pytest.raises(ValueError, match="13 tokens"):
        model(inputs)
