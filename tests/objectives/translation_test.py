"""Label smoothing, the translation task and BLEU, against their definitions in plain Python."""

import math

import numpy as np
import pytest
import sacrebleu
import tensorflow as tf

from tests.layers.gradients import gradients
from tests.layers.reference import log_softmax
from tests.models.transformer_test import V, padded, pairs, small, transformer_reference
from tfnlp import objectives, training
from tfnlp.objectives import smoothed_cross_entropy
from tfnlp.objectives.translation import bleu_by_length, corpus_bleu


def smoothed(ids, size, epsilon):
    return (1 - epsilon) * np.eye(size)[ids] + epsilon / size


@pytest.mark.parametrize(
    "epsilon, scale, compiled", [(0.0, 1.0, None), (0.7, 1.0, True), (0.7, 40.0, None)]
)
def test_smoothing_is_the_formula(epsilon, scale, compiled):
    rng = np.random.default_rng(0)
    z = (scale * rng.standard_normal((3, 4, 50)) - 7).astype("float32")
    z[0, 0] = 3.0  # all equal
    ids = rng.integers(0, 50, (3, 4)).astype("int32")
    weights = rng.standard_normal((3, 4)).astype("float32")

    @tf.function(jit_compile=compiled)
    def run(z):
        return gradients(lambda: smoothed_cross_entropy(z, ids, epsilon), [z], weights)

    losses, (gradient,) = run(tf.constant(z))
    q = smoothed(ids, 50, epsilon)
    assert losses.dtype == tf.float32
    np.testing.assert_allclose(losses, -(q * log_softmax(z)).sum(-1), rtol=1e-5, atol=2e-5)
    want = weights[..., None] * (np.exp(log_softmax(z)) - q)
    np.testing.assert_allclose(gradient, want, atol=2e-6)


def test_half_precision_logits_are_taken_as_float32():
    z = tf.cast(tf.random.stateless_normal((5, 9), (0, 1)), "bfloat16")
    ids = np.array([0, 8, 3, 3, 1], "int32")
    losses, (gradient,) = gradients(lambda: smoothed_cross_entropy(z, ids, 0.1), [z])
    assert losses.dtype == tf.float32 and gradient.dtype == tf.bfloat16
    want = -(smoothed(ids, 9, 0.1) * log_softmax(tf.cast(z, "float32"))).sum(-1)
    np.testing.assert_allclose(losses, want, rtol=1e-5)


@pytest.fixture(scope="module")
def task():
    return objectives.Translation(small(), label_smoothing=0.2)


def batch_of(lengths, seed=0):
    """A batch and, of each row, its source and target with the start token."""
    sources, targets = pairs(lengths, seed)
    batch = padded(sources, [row[:-1] for row in targets], (1, 2), noise=V - 1)
    shape = batch["target_word_ids"].shape
    ids = np.random.default_rng(1).integers(0, V, shape).astype("int32")
    weights = np.zeros(shape, "float32")
    for row, target in enumerate(targets):
        ids[row, : len(target) - 1] = target[1:]
        weights[row, : len(target) - 1] = 1
    return {**batch, "target_ids": ids, "weights": weights}, sources, targets


def by_hand(model, sources, targets, epsilon):
    """Sums over all targets of smoothed loss, plain loss and right guesses; the number of them."""
    sums = np.zeros(4)
    for source, target in zip(sources, targets, strict=True):
        if len(target) > 1:
            z = transformer_reference(source, target[:-1], model)["lm_logits"]
            log_p, ids = log_softmax(z), np.array(target[1:])
            plain = -log_p[np.arange(len(ids)), ids].sum()
            loss = -(smoothed(ids, V, epsilon) * log_p).sum()
            sums += [loss, plain, (z.argmax(-1) == ids).sum(), len(ids)]
    return sums


@pytest.mark.slow
def test_an_evaluation_is_the_mean_over_all_targets(task):
    batches, sums = [], 0
    for lengths, seed in (([(5, 7), (2, 3)], 1), ([(3, 2), (6, 4)], 2)):
        batch, sources, targets = batch_of(lengths, seed)
        batches.append({name: tf.constant(x) for name, x in batch.items()})
        words = sum(map(len, sources)) + sum(len(row) - 1 for row in targets)
        assert float(task.tokens(batch)) == words
        sums = sums + by_hand(task.model, sources, targets, 0.2)
    got = training.Trainer(task, training.adam(), 0.0).evaluate(batches)
    loss, plain, right = sums[:3] / sums[3]
    np.testing.assert_allclose([got["loss"], got["translation_loss"]], loss, rtol=1e-4)
    np.testing.assert_allclose(got["nll"], plain, rtol=1e-4)
    np.testing.assert_allclose(got["perplexity"], math.exp(plain), rtol=1e-3)
    np.testing.assert_allclose(got["token_accuracy"], right, rtol=1e-6)


TRANSLATIONS = [
    "the cat sat on the mat today",
    "a dog runs through the green park",
    "two men are playing music on a stage at night",
]
REFERENCES = [
    "the cat sat on the mat",
    "a brown dog runs through the green park",
    "two men play music on a stage at night",
]


def bleu(translations, references):
    return sacrebleu.corpus_bleu(translations, [references]).score


def test_corpus_bleu_is_sacrebleus():
    score, signature = corpus_bleu(TRANSLATIONS, REFERENCES)
    assert score == pytest.approx(bleu(TRANSLATIONS, REFERENCES), abs=1e-9) and 20 < score < 80
    assert "tok:13a" in signature and "case:mixed" in signature


def test_groups_hold_every_sentence_once():
    sources = ["a b c d", "a b c d e", "a b c d e f g"]
    rows = bleu_by_length(sources, TRANSLATIONS, REFERENCES, groups=2)
    assert [row[:3] for row in rows] == [(4, 5, 2), (6, 7, 1)]
    assert rows[0].bleu == pytest.approx(bleu(TRANSLATIONS[:2], REFERENCES[:2]), abs=1e-9)
    assert rows[1].bleu == pytest.approx(bleu(TRANSLATIONS[2:], REFERENCES[2:]), abs=1e-9)
    same = bleu_by_length(["a"] * 3, TRANSLATIONS, REFERENCES)
    assert len(same) == 1 and same[0].count == 3
