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


def test_lengths_may_be_given():
    model = bert_pretrainer(bert(**SMALL, seq_length=T), max_predictions=P)
    shapes = [model.input[name].shape for name in ("input_word_ids", "masked_lm_positions")]
    assert shapes == [(None, T), (None, P)]
    assert model.output["sequence_output"].shape == (None, T, 16)
    assert model.output["mlm_logits"].shape == (None, P, V)


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
