"""Weights of classes and smoothed labels: torch's numbers, numpy's, and parts of a batch."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from tests.tasks.fine_tuning_test import constant_model, sums
from tests.training.mixed_batches_test import data_of, task_of
from tests.training.toy import two_replicas
from tfnlp import training
from tfnlp.data import TaggedSentence, TaskExample
from tfnlp.runs.finetune_recipe import loss_settings
from tfnlp.settings.tables import TASKS
from tfnlp.tasks import Classify, FineTuning, Tag

LOGITS = np.array(
    [[4.08, -5.11, 0.84, -1.14], [-0.91, -0.43, -4.04, -0.46], [-1.73, 6.65, 0.45, -0.71],
     [-0.56, -1.34, -2.11, -0.78], [0.96, -0.48, 1.92, -0.4], [0.05, 3.09, 1.09, -1.01]]
)  # fmt: skip
# A class of each example, and sets of labels; the last example is padding.
LABELS = {
    "class": np.array([0, 3, 2, 2, 0, 1, 3], "int32"),
    "label": np.float32(
        [
            [0, 1, 0, 1],
            [1, 0, 0, 1],
            [0, 1, 0, 0],
            [1, 0, 0, 0],
            [0, 0, 0, 0],
            [1, 0, 1, 0],
            [1] * 4,
        ]
    ),
}
WEIGHTS = [0.5, 2.0, 1.0, 3.0]
# torch 2.14: CrossEntropyLoss(weight=, label_smoothing=) and BCEWithLogitsLoss(pos_weight=)
TORCH = {
    ("class", None, 0.0): 1.8813721771399095,
    ("class", True, 0.0): 1.5907322673991857,
    ("class", None, 0.1): 1.990205510473243,
    ("class", True, 0.1): 1.8131700247481937,
    ("label", None, 0.0): 1.1053418071378271,
    ("label", True, 0.0): 1.4547895342827364,
}


@pytest.mark.parametrize("kind, weighted, epsilon", TORCH)
def test_the_loss_of_a_batch_is_torchs(kind, weighted, epsilon):
    weights, labels = WEIGHTS if weighted else None, LABELS[kind]
    task = FineTuning(constant_model(f"{kind}_logits"), weights, epsilon)
    logits = np.append(LOGITS, [[9] * 4], 0).astype("float32")
    batch = {"labels": labels, "weights": np.float32([1] * 6 + [0])}
    got = sums(task, batch, {f"{kind}_logits": logits})
    expected = TORCH[kind, weighted, epsilon]
    np.testing.assert_allclose(got["loss"] / got["count"], expected, rtol=1e-6)
    if kind == "class":
        right = LOGITS.argmax(-1) == labels[:6]
        weights = None if weights is None else np.take(weights, labels[:6])
        assert got["count"] >= 6  # the trainer raises a smaller count than 1 to 1
    else:
        right, weights = ((LOGITS > 0) == (labels[:6] > 0)).mean(1), None
        assert got["count"] == 6
    found = got["metrics"][f"{kind}_accuracy"] / got["count"]
    np.testing.assert_allclose(found, np.average(right, weights=weights), rtol=1e-6)


def trained(strategy=None, **arguments):
    strategy = strategy or training.default_strategy()
    with strategy.scope():
        task = FineTuning(task_of("tag").model, [0.2, 1.0, 5.0], 0.1)
    trainer = training.Trainer(
        task, training.AdamW(epsilon=1e-5), 1e-3, strategy=strategy, **arguments
    )
    history = trainer.fit(data_of("tag", mixed=True), 6, progress=False, log_every=1)
    return [row["loss"] for row in history.train], [w.numpy() for w in task.model.weights]


@pytest.mark.slow
def test_parts_of_a_batch_give_the_numbers_of_the_whole():
    """Classes are spread unevenly over the parts: a mean of their means would be another."""
    losses, weights = trained()
    for other, more in (trained(accumulation=4), trained(two_replicas())):
        np.testing.assert_allclose(other, losses, rtol=1e-4)
        for one, two in zip(weights, more, strict=True):
            np.testing.assert_allclose(two, one, rtol=0, atol=2e-4)


TASK = Classify(labels=("a", "b", "c"))
ROWS = [TaskExample(("x",), label) for label in "aaaaabbc"]


def test_balanced_weights_are_those_of_scikit_learn():
    labels = [row.label for row in ROWS]
    expected = compute_class_weight("balanced", classes=np.array(["a", "b", "c"]), y=labels)
    assert list(TASK.balanced(ROWS).values()) == pytest.approx(list(expected))
    tags = Tag(labels=("O", "X"))
    found = tags.balanced([TaggedSentence(("a", "b", "c"), ("O", "O", "X"))])
    assert found == {"O": 0.75, "X": 1.5}


def config(task="classify", **more):
    return TASKS[task][0].make(model="m", train="t", output="o", **more)


def test_weights_are_given_as_text_or_as_a_dict():
    for asked in ("c=4, a=0.5", {"c": 4, "a": 0.5}):
        found = loss_settings(config(class_weights=asked), TASK, ROWS)
        assert found == {"class_weights": {"a": 0.5, "b": 1.0, "c": 4.0}}
    assert loss_settings(config(), TASK, ROWS) == {}
    assert loss_settings(config(label_smoothing=0.1), TASK, ROWS) == {"label_smoothing": 0.1}


@pytest.mark.parametrize("asked", ["d=1", "a=0", "a=inf", "a=1,a=2", "heavy", "a=much", [1, 2, 3]])
def test_weights_that_make_no_sense_are_refused(asked):
    with pytest.raises(ValueError, match="`class_weights`"):
        loss_settings(config(class_weights=asked), TASK, ROWS)


def test_tasks_without_classes_are_refused():
    for name, value in (("class_weights", "balanced"), ("label_smoothing", 0.1)):
        with pytest.raises(ValueError, match=name):
            config("similarity", **{name: value})
        with pytest.raises(ValueError, match=f"`{name}`"):
            crf = Tag(labels=("O", "X"), crf=1.0)
            loss_settings(config("tag", crf=True, **{name: value}), crf, ROWS)
