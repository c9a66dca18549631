"""Fine-tuning: losses and metrics against numpy."""

import keras
import numpy as np
import pytest

from tfnlp.layers import CRF
from tfnlp.tasks import FineTuning

TAGS = 3


def test_loss_of_a_crf_is_that_of_the_chain_of_targets():
    """Between targets are positions without one, such as pieces within words."""
    rng = np.random.default_rng(4)
    inputs = keras.Input((5, TAGS), name="input_mask")  # any name
    logits = CRF(TAGS, rate=2.0, name="crf")(inputs)
    task = FineTuning(keras.Model({"input_mask": inputs}, {"tag_logits": logits}))
    task.crf.set_weights([rng.normal(size=w.shape) for w in task.crf.weights])
    weights = np.array([[0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], "float32")
    batch = {"labels": rng.integers(0, TAGS, (3, 5)).astype("int32"), "weights": weights}
    values = rng.normal(size=(3, 5, TAGS)).astype("float32")
    loss, hits = 0.0, 0
    for row in range(2):
        chosen = weights[row] > 0
        alone, labels = values[row : row + 1, chosen], batch["labels"][row : row + 1, chosen]
        loss -= task.crf.log_likelihood(alone, labels).numpy()[0]
        hits += (task.crf.decode(alone)[0].numpy() == labels).sum()
    got = sums(task, batch, {"tag_logits": values})
    np.testing.assert_allclose([got["loss"], got["count"]], [loss, 8], rtol=1e-5)
    assert got["metrics"] == {"tag_accuracy": hits}


@pytest.mark.parametrize("weights, epsilon", [(None, 0.0), (None, 0.2), ([1.0, 4.0, 2.0], 0.2)])
@pytest.mark.parametrize("kind", ["class", "choice", "tag"])
def test_losses_and_accuracies_are_the_formulas(kind, weights, epsilon):
    rng, weights = np.random.default_rng(0), None if kind == "choice" else weights
    logits = rng.normal(size=(5, 4, TAGS) if kind == "tag" else (5, TAGS))
    labels = rng.integers(0, TAGS, logits.shape[:-1]).astype("int32")
    real = rng.integers(0, 2, labels.shape).astype("float32")
    model = constant_model(f"{kind}_logits", shape=logits.shape[1:])
    task = FineTuning(model, weights, epsilon)
    batch = {"labels": labels, "weights": real}
    got = sums(task, batch, {f"{kind}_logits": logits.astype("float32")})
    c = np.array(weights or [1.0] * TAGS)
    q = np.eye(TAGS)[labels] * (1 - epsilon) + epsilon / TAGS
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    counted = c[labels] * real
    np.testing.assert_allclose(got["loss"], (-(c * q * log_p).sum(-1) * real).sum(), rtol=1e-5)
    right = (counted * (logits.argmax(-1) == labels)).sum()
    assert (got["count"], got["metrics"]) == (counted.sum(), {f"{kind}_accuracy": right})


def test_loss_of_scores_and_their_correlation():
    rng, task = np.random.default_rng(0), FineTuning(constant_model("score"))
    x, y = rng.normal(size=5), rng.integers(0, 3, 5)
    batch = {"labels": y.astype("float32"), "weights": np.array([1, 1, 0, 1, 1], "float32")}
    got, real = sums(task, batch, {"score": x.astype("float32")}), batch["weights"] > 0
    np.testing.assert_allclose(got["loss"], ((x - y)[real] ** 2).sum(), rtol=1e-5)
    means = {name: value / 4 for name, value in got["metrics"].items()}
    want = np.corrcoef(x[real], y[real])[0, 1]
    found = task.report({"loss": 1.0, **means})["score_pearson"]
    np.testing.assert_allclose(found, want, rtol=1e-4)
    assert got["count"] == 4


def test_loss_and_scores_of_spans():
    rng = np.random.default_rng(1)
    task = FineTuning(constant_model("start_logits", "end_logits", "sequence_output"))
    start, end = rng.normal(size=(2, 6, 5))
    start[:, 4] = end[:, 4] = -1e9  # padding
    starts, ends = start.argmax(-1), end.argmax(-1)
    starts[1], ends[1:3] = (starts[1] + 1) % 4, (ends[1:3] + 1) % 4
    weights = np.array([1, 1, 1, 1, 1, 0], "float32")
    batch = {"start_positions": starts.astype("int32"), "end_positions": ends.astype("int32")}
    outputs = {"start_logits": start.astype("float32"), "end_logits": end.astype("float32")}
    got = sums(task, {**batch, "weights": weights}, outputs)
    assert task.kind == "span" and got["count"] == 5
    losses = (cross_entropy(start, starts) + cross_entropy(end, ends)) / 2
    np.testing.assert_allclose(got["loss"], losses[:5].sum(), rtol=1e-5)
    assert got["metrics"] == {"start_accuracy": 4, "end_accuracy": 3, "span_accuracy": 3}


def constant_model(*names, shape=(4,)):
    x = keras.Input(shape, name="x")
    return keras.Model({"x": x}, {name: x + 1.0 for name in names})


def cross_entropy(logits, labels):
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(log_p, labels[..., None], -1)[..., 0]


def sums(task, batch, outputs):
    """Loss, count and sums of the metrics; all are over the targets of the kind's name."""
    batch, outputs = (
        {name: keras.ops.convert_to_tensor(value) for name, value in values.items()}
        for values in (batch, outputs)
    )
    losses, counts = task.losses(batch, outputs), task.targets(batch)
    metrics = task.metrics(batch, outputs)
    assert set(losses) == set(counts) == {target for target, _ in metrics.values()} == {task.kind}
    return {
        "loss": float(losses[task.kind]),
        "count": float(counts[task.kind]),
        "metrics": {name: float(value) for name, (_, value) in metrics.items()},
    }


def test_what_has_no_loss_is_refused():
    for names in (("class_logits", "score"), ("start_logits",), ("y",)):
        with pytest.raises(ValueError, match="model must have"):
            FineTuning(constant_model(*names))
