"""GPT's pretraining: loss and perplexities against numpy."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.gradients import gradients, without_rows
from tests.layers.reference import log_softmax
from tests.models.gpt_reference import V, gpt_reference, small
from tfnlp import objectives, training
from tfnlp.data import TokenWindows
from tfnlp.objectives import cross_entropy

STREAM = np.random.default_rng(3).integers(0, V, 41).astype("int32")


@pytest.fixture(scope="module")
def task():
    return objectives.GPTPretraining(small(norm_first=True), tokens_per_word=1.7)


def row_losses(model, batch):
    """For each row the sum of `-log p` over the targets that count, in float64."""
    rows = []
    for ids, mask, targets, weights in zip(
        *(batch[n] for n in ("input_word_ids", "input_mask", "targets", "weights")), strict=True
    ):
        count = int(mask.sum())
        if count:
            _, logits = gpt_reference(ids[:count].tolist(), model, norm_first=True)
            found = -log_softmax(logits)[np.arange(count), targets[:count]]
            rows.append(float((found * weights[:count]).sum()))
        else:
            rows.append(0.0)
    return rows


def windows(batch_size=3, window=6):
    return TokenWindows(STREAM, batch_size=batch_size, window=window)


@pytest.mark.slow
def test_an_evaluation_is_the_mean_over_all_tokens(task):
    batches = windows(2).evaluation_batches(stride=2)
    got = training.Trainer(task, training.AdamW(), 0.0).evaluate(batches)
    sums = [sum(row_losses(task.model, b)) for b in batches.as_numpy_iterator()]
    loss = sum(sums) / 40
    np.testing.assert_allclose([got["loss"], got["lm_loss"]], loss, rtol=1e-4)
    np.testing.assert_allclose(got["perplexity"], math.exp(loss), rtol=1e-3)
    np.testing.assert_allclose(got["word_perplexity"], math.exp(loss * 1.7), rtol=1e-3)


def test_report():
    task = objectives.GPTPretraining(small())
    assert task.report({"lm_loss": 2.0, "x": 1}) == {
        "lm_loss": 2.0, "x": 1, "perplexity": math.exp(2.0)
    }  # fmt: skip
    task.tokens_per_word = 1.5
    assert task.report({"lm_loss": 2.0})["word_perplexity"] == math.exp(3.0)
    # e to 1.5 * 600 overflows, e to 600 does not.
    large = task.report({"lm_loss": 600.0})
    assert large["perplexity"] < math.inf == large["word_perplexity"]
    assert task.report({"lm_loss": 800.0})["perplexity"] == math.inf


def test_loss_in_blocks_is_that_of_the_logits(task, monkeypatch):
    batch = {n: tf.constant(x) for n, x in windows().batch(0).items()}

    def run():
        loss, found = gradients(
            lambda: task.losses(batch, task.outputs(batch, training=False))["lm"],
            task.model.trainable_variables,
        )
        return loss, *without_rows(found)

    whole = run()
    monkeypatch.setattr(cross_entropy, "_WHOLE", 0)
    monkeypatch.setattr(cross_entropy, "_BLOCK", 8 * V)
    for got, want in zip(run(), whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
