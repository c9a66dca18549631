"""ELECTRA's pretraining: sums and counts against numpy."""

import numpy as np
import pytest

from tests.layers.reference import log_softmax, randomize
from tests.models.electra_test import SMALL, masked_batch
from tfnlp import models, objectives, training


@pytest.fixture(scope="module")
def task():
    model = models.electra_pretrainer(models.electra(**SMALL), 0.5)
    randomize(model, np.random.default_rng(1), 0.3)
    return objectives.ElectraPretraining(model)


def test_sums_counts_and_measures(task):
    batch = masked_batch(np.random.default_rng(2))
    outputs = task.model(task.inputs(batch))
    counts, losses = task.targets(batch), task.losses(batch, outputs)
    metrics = task.metrics(batch, outputs)
    assert set(task.inputs(batch)) == set(batch)

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

    results = training.Trainer(task, training.AdamW(), 0.0).evaluate([batch])
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


def test_nothing_marked_and_nothing_replaced(task):
    means = {"found": 0.0, "marked": 0.0, "replaced": 0.0, "discriminator_loss": 5.0}
    assert task.report(means) == {
        "replaced": 0.0, "discriminator_loss": 0.1,
    }  # fmt: skip
    means = {"found": 0.0, "marked": 0.0, "replaced": 0.5, "discriminator_loss": 5.0}
    rates = {"discriminator_precision": 0.0, "discriminator_recall": 0.0}
    assert task.report(means) == {"replaced": 0.5, "discriminator_loss": 0.1, **rates}
