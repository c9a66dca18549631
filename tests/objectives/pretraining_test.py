"""Pretraining of GPT, ELECTRA and ELMo: losses and measures against numpy."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.layers.gradients import gradients, without_rows
from tests.layers.reference import log_softmax, randomize
from tests.models.electra_test import SMALL, masked_batch
from tests.models.gpt_reference import V, small
from tests.training.elmo_toy import UNSEEN, WORDS, toy_corpus, toy_task, toy_windows
from tfnlp import models, objectives, training
from tfnlp.data import TokenWindows
from tfnlp.objectives import cross_entropy

STREAM = np.random.default_rng(3).integers(0, V, 41).astype("int32")


@pytest.fixture(scope="module")
def gpt():
    return objectives.GPTPretraining(small(norm_first=True), tokens_per_word=1.7)


def loss_of(model, batch):
    """The sum of `-log p` over the targets that count, in float64."""
    logits = model({name: batch[name] for name in model.input})["lm_logits"]
    log_p = np.take_along_axis(log_softmax(logits), batch["targets"][..., None], -1)[..., 0]
    return -(log_p * batch["weights"]).sum()


def windows(batch_size=3, window=6):
    return TokenWindows(STREAM, batch_size=batch_size, window=window)


@pytest.mark.slow
def test_an_evaluation_is_the_mean_over_all_tokens(gpt):
    batches = windows(2).evaluation_batches(stride=2)
    got = training.Trainer(gpt, training.AdamW(), 0.0).evaluate(batches)
    loss = sum(loss_of(gpt.model, batch) for batch in batches.as_numpy_iterator()) / 40
    np.testing.assert_allclose([got["loss"], got["lm_loss"]], loss, rtol=1e-4)
    np.testing.assert_allclose(got["perplexity"], math.exp(loss), rtol=1e-3)
    np.testing.assert_allclose(got["word_perplexity"], math.exp(loss * 1.7), rtol=1e-3)


def test_report():
    gpt = objectives.GPTPretraining(small())
    assert gpt.report({"lm_loss": 2.0, "x": 1}) == {
        "lm_loss": 2.0, "x": 1, "perplexity": math.exp(2.0)
    }  # fmt: skip
    gpt.tokens_per_word = 1.5
    assert gpt.report({"lm_loss": 2.0})["word_perplexity"] == math.exp(3.0)
    # e to 1.5 * 600 overflows, e to 600 does not.
    large = gpt.report({"lm_loss": 600.0})
    assert large["perplexity"] < math.inf == large["word_perplexity"]
    assert gpt.report({"lm_loss": 800.0})["perplexity"] == math.inf


def test_loss_in_blocks_is_that_of_the_logits(gpt, monkeypatch):
    batch = {n: tf.constant(x) for n, x in windows().batch(0).items()}

    def run():
        loss, found = gradients(
            lambda: gpt.losses(batch, gpt.outputs(batch, training=False))["lm"],
            gpt.model.trainable_variables,
        )
        return loss, *without_rows(found)

    whole = run()
    monkeypatch.setattr(cross_entropy, "_WHOLE", 0)
    monkeypatch.setattr(cross_entropy, "_BLOCK", 8 * V)
    for got, want in zip(run(), whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def electra():
    model = models.electra_pretrainer(models.electra(**SMALL), 0.5)
    randomize(model, np.random.default_rng(1), 0.3)
    return objectives.ElectraPretraining(model)


def test_sums_counts_and_measures(electra):
    batch = masked_batch(np.random.default_rng(2))
    outputs = electra.model(electra.inputs(batch))
    counts, losses = electra.targets(batch), electra.losses(batch, outputs)
    metrics = electra.metrics(batch, outputs)
    assert set(electra.inputs(batch)) == set(batch)

    ids, weights = (np.asarray(batch[f"masked_lm_{name}"]) for name in ("ids", "weights"))
    log_p = log_softmax(outputs["mlm_logits"])
    words = {
        "n": weights.sum(),
        "loss": -(np.take_along_axis(log_p, ids[..., None], -1)[..., 0] * weights).sum(),
        "right": ((log_p.argmax(-1) == ids) * weights).sum(),
    }
    real, label = np.asarray(batch["input_mask"]) == 1, np.asarray(outputs["replaced"]) == 1
    p = 1 / (1 + np.exp(-np.asarray(outputs["discriminator_logits"], "float64")))
    marked = p > 0.5
    values = {
        "n": real,
        "loss": -np.log(np.where(label, p, 1 - p)),
        "right": label == marked,
        "replaced": label,
        "marked": marked,
        "found": label & marked,
    }
    tokens = {name: value[real].sum() for name, value in values.items()}
    assert 0 < tokens["found"] <= min(tokens["replaced"], tokens["marked"]) < tokens["n"]

    assert {k: float(v) for k, v in counts.items()} == {
        "masked_lm": words["n"], "discriminator": tokens["n"]
    }  # fmt: skip
    np.testing.assert_allclose(losses["masked_lm"], words["loss"], rtol=1e-4)
    np.testing.assert_allclose(losses["discriminator"], 50 * tokens["loss"], rtol=1e-4)
    assert {k: (n, float(v)) for k, (n, v) in metrics.items()} == {
        "masked_lm_accuracy": ("masked_lm", words["right"]),
        "discriminator_accuracy": ("discriminator", tokens["right"]),
        **{n: ("discriminator", tokens[n]) for n in ("replaced", "marked", "found")},
    }

    results = training.Trainer(electra, training.AdamW(), 0.0).evaluate([batch])
    loss = words["loss"] / words["n"] + 50 * tokens["loss"] / tokens["n"]
    expected = {
        "loss": loss,
        "masked_lm_loss": words["loss"] / words["n"],
        "discriminator_loss": tokens["loss"] / tokens["n"],
        "masked_lm_accuracy": words["right"] / words["n"],
        "discriminator_accuracy": tokens["right"] / tokens["n"],
        "replaced": tokens["replaced"] / tokens["n"],
        "discriminator_precision": tokens["found"] / tokens["marked"],
        "discriminator_recall": tokens["found"] / tokens["replaced"],
    }
    assert results == pytest.approx(expected, rel=1e-4)


def test_nothing_marked_and_nothing_replaced(electra):
    means = {"found": 0.0, "marked": 0.0, "replaced": 0.0, "discriminator_loss": 5.0}
    assert electra.report(means) == {
        "replaced": 0.0, "discriminator_loss": 0.1,
    }  # fmt: skip
    means = {"found": 0.0, "marked": 0.0, "replaced": 0.5, "discriminator_loss": 5.0}
    rates = {"discriminator_precision": 0.0, "discriminator_recall": 0.0}
    assert electra.report(means) == {"replaced": 0.5, "discriminator_loss": 0.1, **rates}


DIRECTIONS = ("forward", "backward")


@pytest.fixture(scope="module")
def elmo():
    return toy_task(resets=True)


@pytest.fixture(scope="module")
def plain():
    """A task without resets."""
    return toy_task(resets=False)


def run(task, batch):
    """Losses `[B, T]` by direction, and the new state, from a batch of numpy arrays."""
    rows = len(batch["weights"])
    shape = (rows, *task.state["state"].shape[1:])
    batch = {name: tf.constant(value) for name, value in batch.items()}
    batch["state"] = tf.zeros(shape)
    outputs = task.model(task.inputs(batch), training=False)
    return {d: outputs[f"{d}_losses"].numpy() for d in DIRECTIONS}, outputs["state"].numpy()


def joined(batches):
    return {name: np.concatenate([b[name] for b in batches], 1) for name in batches[0]}


@pytest.mark.slow
def test_resets_split_a_window_into_separate_sequences(elmo, plain):
    batch = joined([toy_windows(reset="sentence").batch(step) for step in range(2)])
    got, _ = run(elmo, batch)
    resets = batch.pop("resets")
    for row in range(3):
        starts = sorted({0, *np.flatnonzero(resets[row])})
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            alone = {name: x[row : row + 1, start:end] for name, x in batch.items()}
            want, _ = run(plain, alone)
            for d in DIRECTIONS:
                np.testing.assert_allclose(got[d][row, start:end], want[d][0], atol=2e-6)


@pytest.mark.slow
def test_distinct_words_and_all_words_give_the_same_vectors(plain):
    batch = toy_windows().batch(2)
    other = objectives.ElmoPretraining(plain.model, toy_corpus().characters(), 8, distinct=False)
    words = plain.inputs({**batch, "state": plain.state["state"]})["word_characters"]
    assert words.shape[0] == len(np.unique([batch["forward_ids"], batch["backward_ids"]]))
    # As long as the longest word with its two marks and the widest filter.
    used = [w for w in (*WORDS, *UNSEEN) if toy_corpus().lexicon.index(w) in batch["forward_ids"]]
    assert words.shape[1] == max(len(w.encode()) for w in used) + 2 + 3
    (one, state), (two, same) = run(plain, batch), run(other, batch)
    for d in DIRECTIONS:
        np.testing.assert_allclose(one[d], two[d], rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(state, same, rtol=0, atol=1e-5)


def test_perplexities_of_both_directions(elmo):
    found = elmo.report({"loss": 3.0, "forward_loss": 1.0, "backward_loss": 2.0})
    names = ("forward_perplexity", "backward_perplexity", "perplexity")
    np.testing.assert_allclose([found[name] for name in names], np.exp([1.0, 2.0, 1.5]))
    assert found["loss"] == 3.0
