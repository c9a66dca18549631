"""BERT and encoders like it. Their numbers are compared with other code's in tests/checkpoints."""

import numpy as np
import pytest

from tests.layers.reference import randomize
from tfnlp import models
from tfnlp.models import albert, bert, bert_pretrainer
from tfnlp.models.distilbert import teacher_layers

B, T, V, P = 4, 9, 23, 3
SMALL = dict(vocab_size=V, num_layers=3, hidden_size=16, num_heads=4, intermediate_size=24)
SMALL.update(max_positions=12)
LENGTHS = (9, 5, 1, 7)
CLOSE = dict(rtol=1e-4, atol=1e-4)


def batch(rng, positions=False):
    """Inputs of `B` sequences, the real tokens first as a tokenizer packs them."""
    mask = np.arange(T) < np.array(LENGTHS)[:, None]
    inputs = {
        "input_word_ids": np.where(mask, rng.integers(1, V, (B, T)), 0),
        "input_mask": mask,
        "input_type_ids": np.where(mask & (np.arange(T) > 3), 1, 0),
    }
    if positions:
        inputs["masked_lm_positions"] = rng.integers(0, LENGTHS, (P, B)).T
    return {name: value.astype("int32") for name, value in inputs.items()}


def randomized(model, rng, scale=0.3):
    randomize(model, rng, scale)
    return model


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


def test_initial_weights():
    model = bert_pretrainer(
        bert(500, num_layers=2, hidden_size=64, num_heads=2, intermediate_size=128)
    )
    w = {v.path: v.numpy() for v in model.trainable_variables}
    drawn = {k: v for k, v in w.items() if k.endswith(("kernel", "embeddings"))}
    assert len(drawn) == 3 + 2 * 4 + 3
    for name, value in drawn.items():
        assert np.abs(value).max() <= 0.04 + 1e-7, name  # cut off at two standard deviations
        if value.size > 1000:
            # A normal of 0.02 cut off at 2 sigma has a standard deviation of 0.880 * 0.02.
            np.testing.assert_allclose(value.std(), 0.0176, rtol=0.05, err_msg=name)
            assert abs(value.mean()) < 5 * 0.0176 / value.size**0.5, name
    for name, value in w.items():
        if name not in drawn:
            assert (value == (1 if name.endswith("gamma") else 0)).all(), name
    seen = [(k, v) for k, v in drawn.items() if v.size > 1000]
    for i, (name, value) in enumerate(seen):
        for other_name, other in seen[i + 1 :]:
            size = min(value.size, other.size)
            same = value.ravel()[:size] == other.ravel()[:size]
            assert same.mean() < 0.01, (name, other_name)


def test_albert_is_a_bert_whose_layers_are_equal():
    width = SMALL["hidden_size"]
    rates = {"dropout": 0.0, "attention_dropout": 0.0}
    ours = albert(**{**SMALL, **rates}, embedding_size=width, initializer_range=0.3)
    theirs = bert(**{**SMALL, **rates}, activation="gelu_tanh")
    ours.get_layer("embedding_projection").set_weights([np.eye(width), np.zeros(width)])
    for layer in theirs.layers:
        name = "shared_layer" if layer.name.startswith("layer_") else layer.name
        layer.set_weights(ours.get_layer(name).get_weights())
    inputs = batch(np.random.default_rng(0))
    found, expected = ours(inputs), theirs(inputs)
    assert found.keys() == expected.keys()
    for name in ("embedding_output", "sequence_output", "pooled_output"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5, err_msg=name)
    for one, other in zip(found["encoder_outputs"], expected["encoder_outputs"], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def pretrainer(rng, **changes):
    encoder = models.distilbert(**{**SMALL, **changes})
    return randomized(models.distilbert_pretrainer(encoder), rng)


def teacher(rng, **changes):
    return randomized(models.bert_pretrainer(models.bert(**{**SMALL, **changes})), rng)


@pytest.mark.parametrize(
    "layers, of, chosen",
    [(6, 12, [0, 2, 4, 7, 9, 11]), (2, 4, [0, 3]), (1, 2, [0]), (3, 3, [0, 1, 2])],
)
def test_layers_of_the_teacher(layers, of, chosen):
    assert teacher_layers(layers, of) == chosen


def test_student_starts_with_the_teachers_embeddings_and_layers():
    rng = np.random.default_rng(2)
    student, old = pretrainer(rng, num_layers=2, max_positions=10), teacher(rng, num_layers=4)
    models.copy_teacher(student, old)
    inputs = batch(rng, positions=True)
    inputs["input_type_ids"] *= 0
    got, expected = student(inputs), old(inputs)
    np.testing.assert_allclose(got["embedding_output"], expected["embedding_output"], **CLOSE)
    first = got["encoder_outputs"][0]
    np.testing.assert_allclose(first, expected["encoder_outputs"][0], **CLOSE)
    mine, theirs = ({v.path: v.numpy() for v in model.weights} for model in (student, old))
    for path, value in mine.items():
        if path.startswith(("layer_1/", "masked_lm")):
            np.testing.assert_array_equal(value, theirs[path.replace("layer_1/", "layer_3/")])


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(num_layers=2), "layers"),
        (dict(num_heads=2), "heads"),
        (dict(intermediate_size=20), "layer_0/intermediate/kernel"),
    ],
)
def test_teacher_that_does_not_fit(changes, said):
    rng = np.random.default_rng(4)
    student, old = pretrainer(rng), teacher(rng, **changes)
    before = student.get_weights()
    with pytest.raises(ValueError, match=said):
        models.copy_teacher(student, old)
    for a, b in zip(student.get_weights(), before, strict=True):
        np.testing.assert_array_equal(a, b)
