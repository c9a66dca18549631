"""The three losses of DistilBERT against numpy, and what a teacher is not part of."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file

from tests.layers.reference import log_softmax, randomize
from tests.training.toy import VOCAB, ToyBatches
from tfnlp import models, objectives, training

SIZE = dict(vocab_size=VOCAB, hidden_size=16, num_heads=2, intermediate_size=32, max_positions=16)


def student(dropout=0.0, **changes):
    keras.utils.set_random_seed(1)
    sizes = {**SIZE, "num_layers": 1, **changes}
    encoder = models.distilbert(**sizes, dropout=dropout, attention_dropout=dropout)
    return models.distilbert_pretrainer(encoder)


def teacher(seed=2, **changes):
    """A BERT that has dropout, a pooler and a next-sentence head."""
    keras.utils.set_random_seed(seed)
    model = models.bert_pretrainer(models.bert(**{**SIZE, "num_layers": 2, **changes}))
    randomize(model, np.random.default_rng(seed), 0.3)
    return model


def batch(step=0, size=8):
    return {name: tf.constant(array) for name, array in ToyBatches(size).batch(step).items()}


def softmax(x):
    return np.exp(log_softmax(x))


def everywhere(model, given):
    """Logits and last vectors at all positions, in float64."""
    inputs = {name: given[name].numpy() for name in model.input}
    rows, length = inputs["input_mask"].shape
    inputs["masked_lm_positions"] = np.tile(np.arange(length, dtype="int32"), (rows, 1))
    outputs = model({name: tf.constant(array) for name, array in inputs.items()})
    return [np.asarray(outputs[name], "float64") for name in ("mlm_logits", "sequence_output")]


def reference_sums(one, other, given, temperature, real):
    """Sums and counts of the three losses, a position at a time."""
    (logits, vectors), (soft_logits, soft_vectors) = (everywhere(m, given) for m in (one, other))
    array = {name: tensor.numpy() for name, tensor in given.items()}
    masked = [
        (row, array["masked_lm_positions"][row, p], array["masked_lm_ids"][row, p])
        for row, p in zip(*np.nonzero(array["masked_lm_weights"]), strict=True)
    ]
    tokens = list(zip(*np.nonzero(array["input_mask"]), strict=True))
    soft = tokens if real else [place[:2] for place in masked]
    sums = dict.fromkeys(("distillation", "masked_lm", "cosine"), 0.0)
    for place in soft:
        p, q = softmax(soft_logits[place] / temperature), softmax(logits[place] / temperature)
        sums["distillation"] += temperature**2 * (p * np.log(p / q)).sum()
    for row, position, word in masked:
        sums["masked_lm"] -= np.log(softmax(logits[row, position])[word])
    for place in tokens:
        x, y = vectors[place], soft_vectors[place]
        sums["cosine"] += 1 - x @ y / np.sqrt((x @ x) * (y @ y))
    return sums, dict(distillation=len(soft), masked_lm=len(masked), cosine=len(tokens))


@pytest.mark.parametrize("soft_targets", ["masked", "real"])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_losses_are_the_formulas(soft_targets, temperature):
    one, other, given = student(), teacher(), batch()
    weights = dict(distillation=5.0, masked_lm=2.0, cosine=0.5)
    task = objectives.Distillation(
        one, other, **weights, temperature=temperature, soft_targets=soft_targets
    )
    outputs = one(task.inputs(given))
    sums, counts = reference_sums(one, other, given, temperature, soft_targets == "real")
    got, targets = task.losses(given, outputs), task.targets(given)
    assert set(got) == set(targets) == set(sums)
    for name, value in sums.items():
        assert float(targets[name]) == counts[name]
        np.testing.assert_allclose(float(got[name]), weights[name] * value, rtol=1e-4)
    plain = objectives.BertPretraining(one)
    (_, hits), (_, expected) = (
        owner.metrics(given, one(owner.inputs(given)))["masked_lm_accuracy"]
        for owner in (task, plain)
    )
    assert float(hits) == float(expected)


@pytest.mark.slow
def test_report_is_free_of_the_weights_and_loss_is_not():
    trainer = training.Trainer(
        objectives.Distillation(student(), teacher()), training.AdamW(), 1e-3
    )
    found = trainer.evaluate([batch()])
    total = 5 * found["distillation_loss"] + 2 * found["masked_lm_loss"] + found["cosine_loss"]
    assert found["loss"] == pytest.approx(total, rel=1e-5)
    plain = training.Trainer(objectives.BertPretraining(student()), training.AdamW(), 1e-3)
    assert found["masked_lm_loss"] == pytest.approx(plain.evaluate([batch()])["loss"], rel=1e-5)


@pytest.mark.parametrize("left_out", ["distillation", "cosine"])
def test_loss_without_weight_is_left_out(left_out):
    other = teacher(hidden_size=24) if left_out == "cosine" else teacher()
    task = objectives.Distillation(student(), other, **{left_out: 0.0})
    given = batch()
    assert left_out not in task.losses(given, task.model(task.inputs(given)))
    assert left_out not in task.targets(given)


@pytest.mark.slow
def test_the_teacher_is_neither_trained_nor_saved(tmp_path):
    task = objectives.Distillation(student(0.1), teacher())
    trainer = training.Trainer(task, training.AdamW(), 1e-2, directory=tmp_path)
    trainer.fit(ToyBatches(16), 3, progress=False)
    for a, b in zip(trainer.objective.teacher.get_weights(), teacher().get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    (name, *_) = sorted((tmp_path / "checkpoints").glob("step-*"))
    saved = load_file(name / "variables.safetensors")
    mine = [path for path in saved if path.startswith("model/")]
    assert len(mine) == len(trainer.objective.model.trainable_variables)
    assert not any("pooler" in path or "layer_1" in path for path in saved)


@pytest.mark.slow
def test_bf16_is_near_float32():
    given, found = batch(), []
    for dtype in ("float32", "mixed_bfloat16"):
        one, other = student(dtype=dtype), teacher(dtype=dtype)
        task = objectives.Distillation(one, other)
        sums = task.losses(given, one(task.inputs(given)))
        assert {value.dtype for value in sums.values()} == {tf.float32}
        found.append({name: float(value) for name, value in sums.items()})
    for name, value in found[0].items():
        assert found[1][name] == pytest.approx(value, rel=0.03)
