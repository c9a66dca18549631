import numpy as np
import pytest

from tests.models.bert_reference import (
    CLOSE,
    SMALL,
    batch,
    bert_reference,
    masked_lm_logits,
    randomized,
)
from tfnlp import models
from tfnlp.models.distilbert import teacher_layers


def pretrainer(rng, **changes):
    encoder = models.distilbert(**{**SMALL, **changes})
    return randomized(models.distilbert_pretrainer(encoder), rng)


def teacher(rng, **changes):
    return randomized(models.bert_pretrainer(models.bert(**{**SMALL, **changes})), rng)


def test_formula():
    rng = np.random.default_rng(0)
    model, inputs = pretrainer(rng), batch(rng, positions=True)
    layers, pooled = bert_reference(inputs, model)
    outputs, real = model(inputs), inputs["input_mask"].astype(bool)
    assert pooled is None and set(outputs) == {
        "sequence_output", "encoder_outputs", "embedding_output", "mlm_logits",
    }  # fmt: skip
    got = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    for one, expected in zip(got, layers, strict=True):
        np.testing.assert_allclose(np.asarray(one)[real], expected[real], **CLOSE)
    logits = masked_lm_logits(layers[-1], inputs, model)
    np.testing.assert_allclose(outputs["mlm_logits"], logits, rtol=1e-3, atol=1e-3)


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
