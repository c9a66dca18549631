import numpy as np
import pytest

from tests.models.bert_reference import (
    CLOSE,
    SMALL,
    P,
    T,
    V,
    batch,
    bert_reference,
    small,
    weight_count,
)
from tests.support import without_values
from tfnlp.models import (
    BERT_BASE,
    BERT_LARGE,
    BERT_MEDIUM,
    BERT_MINI,
    BERT_SMALL,
    BERT_TINY,
    bert,
    bert_pretrainer,
)


def parameter_count(num_layers, hidden_size, num_heads, intermediate_size, vocab_size=30522):
    """The published architecture, counted by hand (`num_heads` makes no difference)."""
    h, f = hidden_size, intermediate_size
    embeddings = (vocab_size + 512 + 2) * h + 2 * h
    layer = 4 * (h * h + h) + (h * f + f) + (f * h + h) + 4 * h
    return embeddings + num_layers * layer + (h * h + h)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
@pytest.mark.parametrize("epsilon", [1e-12, 0.1])
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
    np.testing.assert_allclose(outputs["pooled_output"], pooled, **CLOSE)


@pytest.mark.parametrize(
    "size, published",
    [
        (BERT_TINY, 4_385_920),
        (BERT_MINI, 11_170_560),
        (BERT_SMALL, 28_763_648),
        (BERT_MEDIUM, 41_373_184),
    ],
)
def test_parameter_counts_of_the_small_models(size, published):
    with without_values():
        assert weight_count(bert(**size)) == published == parameter_count(**size)


def test_parameter_counts_of_the_papers_models():
    with without_values():
        base, large = weight_count(bert()), weight_count(bert(**BERT_LARGE))
    assert base == parameter_count(**BERT_BASE)  # the defaults
    assert abs(base / 109.48e6 - 1) < 1e-3
    assert large == parameter_count(**BERT_LARGE)
    assert abs(large / 335.14e6 - 1) < 1e-3


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


@pytest.mark.parametrize("seq_length", [None, T])
def test_last_encoder_output_is_the_sequence_output(seq_length):
    rng = np.random.default_rng(2)
    outputs = small(rng, seq_length=seq_length)(batch(rng))
    assert len(outputs["encoder_outputs"]) == SMALL["num_layers"]
    last = outputs["encoder_outputs"][-1]
    np.testing.assert_array_equal(last, outputs["sequence_output"])
    assert np.abs(last - outputs["encoder_outputs"][-2]).max() > 0.1


def test_initializer_range():
    kernel = bert(**SMALL, initializer_range=0.5).get_layer("layer_0").weights[0].numpy()
    assert 0.5 < np.abs(kernel).max() <= 1.0


def test_dropout_only_while_training():
    rng = np.random.default_rng(7)
    inputs = batch(rng)
    model = small(rng)
    still = [np.asarray(model(inputs, training=False)["sequence_output"]) for _ in range(2)]
    np.testing.assert_array_equal(*still)
    np.testing.assert_array_equal(model(inputs)["sequence_output"], still[0])
    moved = [np.asarray(model(inputs, training=True)["sequence_output"]) for _ in range(2)]
    assert np.abs(moved[0] - moved[1]).max() > 1e-2
    assert np.abs(moved[0] - still[0]).max() > 1e-2
    none = small(rng, dropout=0.0, attention_dropout=0.0)
    np.testing.assert_allclose(
        none(inputs, training=True)["sequence_output"], none(inputs)["sequence_output"], atol=1e-5
    )


@pytest.mark.parametrize(
    "wrong, message",
    [
        (dict(num_layers=0), "num_layers=0"),
        (dict(num_heads=5), "hidden_size=16 .*num_heads=5"),
        (dict(num_heads=0), "hidden_size=16 .*num_heads=0"),
        (dict(max_positions=0), "max_positions=0"),
        (dict(num_segments=0), "num_segments=0"),
        (dict(seq_length=13), "seq_length=13 .*max_positions=12"),
        (dict(activation="elu"), "activation='elu'"),
        (dict(vocab_size=0), "vocab_size=0"),
    ],
)
def test_errors_name_the_argument(wrong, message):
    with pytest.raises(ValueError, match=message):
        bert(**{**SMALL, **wrong})


def test_too_long_a_sequence():
    model = bert(**SMALL)
    ids = np.zeros((2, 13), "int32")
    inputs = {n: ids for n in ("input_word_ids", "input_mask", "input_type_ids")}
    with pytest.raises(ValueError, match="13 tokens.*max_positions=12"):
        model(inputs)
