"""Several labels at once: the loss, the measures and the thresholds."""

import keras
import numpy as np
import pytest
from sklearn import metrics as sklearn

from tests.tasks.fine_tuning_test import LABELS, LOGITS, constant_model, sums
from tfnlp.data import TaskExample
from tfnlp.tasks import FineTuning, Labels
from tfnlp.tasks.labels import best_threshold, label_sets


def test_smoothed_labels_are_keras():
    labels = LABELS["label"][:6]
    batch = {"labels": labels, "weights": np.ones(6, "float32")}
    task = FineTuning(constant_model("label_logits"), None, 0.2)
    got = sums(task, batch, {"label_logits": np.float32(LOGITS)})
    loss = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.2)
    np.testing.assert_allclose(got["loss"] / 6, float(loss(labels, np.float32(LOGITS))), rtol=1e-5)
    huge = sums(task, batch, {"label_logits": np.float32(LOGITS * 1e4)})
    assert np.isfinite(huge["loss"])


def random_sets(seed, count=60, size=5):
    rng = np.random.default_rng(seed)
    gold, guess = (rng.random((2, count, size)) < 0.3)[...]
    names = [f"l{k}" for k in range(size)]
    sets = [[[n for n, yes in zip(names, row, strict=True) if yes] for row in x]
            for x in (gold, guess)]  # fmt: skip
    return gold, guess, sets, names


def test_measures_are_those_of_scikit_learn():
    gold, guess, sets, names = random_sets(0)
    found = label_sets(*sets, names)
    options = dict(zero_division=0)
    for average in ("micro", "macro"):
        expected = sklearn.f1_score(gold, guess, average=average, **options)
        assert found[f"{average}_f1"] == pytest.approx(expected)
    expected = sklearn.f1_score(gold, guess, average="samples", zero_division=1)
    assert found["samples_f1"] == pytest.approx(expected)
    assert found["subset_accuracy"] == pytest.approx(sklearn.accuracy_score(gold, guess))
    columns = sklearn.precision_recall_fscore_support(gold, guess, **options)
    for name, values in zip(("precision", "recall", "f1"), columns, strict=False):
        for label, value in zip(names, values, strict=True):
            assert found[f"{name}/{label}"] == pytest.approx(value)


def test_labels_that_never_occur_and_those_that_are_not_known():
    gold, guess, sets, names = random_sets(1)
    found = label_sets(*sets, [*names, "never"])
    assert found["macro_f1"] == label_sets(*sets, names)["macro_f1"]
    assert not any(name.endswith("/never") for name in found)
    known = label_sets(*sets, names[:-1])  # the last one can't be predicted, but it was wanted
    assert known["micro_f1"] == label_sets(*sets, names)["micro_f1"]
    assert "f1/l4" not in known
    found = label_sets([[], []], [[], ["a"]], ["a"])  # nothing to find
    assert found == {"samples_f1": 0.5, "subset_accuracy": 0.5}


@pytest.mark.parametrize("digits", [1, 2, 8])
def test_thresholds_are_the_best_of_all(digits):
    """With one digit many probabilities are equal, and are chosen together."""
    rng = np.random.default_rng(digits)
    for _ in range(20):
        gold = rng.random(25) < 0.3
        p = np.float32(np.round(np.clip(0.2 * gold + rng.random(25) * 0.7, 0, 1), digits))
        found = best_threshold(gold, p)
        candidates = [*np.unique(p), 0.5, 2.0]
        every = [f1(gold, p >= t) for t in candidates]
        assert f1(gold, p >= np.float32(found)) == max(every)
        assert found == 0.5 or every[-2] < max(every)  # 0.5 where nothing is better
    assert best_threshold(np.zeros(3, bool), np.float32([0.1, 0.9, 0.2])) == 0.5


def f1(gold, guess):
    return 2 * (gold & guess).sum() / max(1, gold.sum() + guess.sum())


def test_neighbouring_numbers_are_told_apart():
    low = np.float32(0.3)
    p = np.array([low, np.nextafter(low, np.float32(1))], "float32")
    found = np.float32(best_threshold(np.array([False, True]), p))
    assert list(p >= found) == [False, True]


def test_thresholds_choose_the_same_in_the_graph_and_in_python():
    rng = np.random.default_rng(3)
    task = Labels(labels=("a", "b", "c"))
    logits = rng.normal(size=(40, 3)).astype("float32") - 1
    p = 1 / (1 + np.exp(-logits.astype("float64")))
    examples = [
        TaskExample(("x",), tuple(n for n, yes in zip("abc", row, strict=True) if yes))
        for row in rng.random((40, 3)) < p
    ]
    decoded = task.decoded({"label_logits": logits})
    np.testing.assert_allclose(decoded["probabilities"], p, rtol=1e-5)
    rows = [
        {"labels": [], "probabilities": dict(zip("abc", map(float, row), strict=True))}
        for row in decoded["probabilities"].numpy()
    ]
    chosen, predictions = task.tuned(examples, rows)
    graph = chosen.decoded({"label_logits": logits})["labels"].numpy()
    assert [[x.decode() for x in row if x] for row in graph] == [p["labels"] for p in predictions]
    half = task.decoded({"label_logits": logits})["labels"].numpy() != b""
    np.testing.assert_array_equal(half, logits >= 0)
    at_half = [{"labels": [x.decode() for x in row if x]} for row in
               task.decoded({"label_logits": logits})["labels"].numpy()]  # fmt: skip
    best, before = chosen.measures(examples, predictions), task.measures(examples, at_half)
    for label in "abc":
        assert best[f"f1/{label}"] >= before[f"f1/{label}"]


def test_balanced_weights_make_both_decisions_count_alike():
    rows = [TaskExample(("x",), labels) for labels in (("a",), ("a", "b"), ("a",), ())]
    found = Labels(labels=("a", "b")).balanced(rows)
    assert found == {"a": pytest.approx(1 / 3), "b": 3.0}
