"""Measures against sums written out, a second reading of entities, and values by hand."""

import random
import re
import warnings

import numpy as np
import pytest

from tfnlp.tasks import metrics


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def counts(labels, predicted, name):
    pairs = list(zip(labels, predicted, strict=True))
    right = sum(a == b == name for a, b in pairs)
    return right, sum(b == name for _, b in pairs), sum(a == name for a, _ in pairs)


def f1_of(right, guessed, gold):
    precision, recall = right / guessed if guessed else 0.0, right / gold if gold else 0.0
    return 2 * precision * recall / (precision + recall) if right else 0.0


def test_two_classes_by_hand():
    # TP 3, FN 1, FP 2, TN 4: Matthews (3*4 - 2*1) / sqrt(5 * 4 * 6 * 5)
    labels = ["1"] * 4 + ["0"] * 6
    predicted = ["1", "1", "1", "0", "1", "1", "0", "0", "0", "0"]
    values = metrics.classification(labels, predicted, ["0", "1"])
    assert values == pytest.approx(
        {
            "accuracy": 0.7,
            "matthews": 10 / np.sqrt(600),
            "f1": 2 * 0.6 * 0.75 / 1.35,
            "f1_macro": (2 * 0.6 * 0.75 / 1.35 + f1_of(4, 5, 6)) / 2,
        }
    )
    turned = metrics.classification(labels, predicted, ["1", "0"])
    assert turned["f1"] == pytest.approx(f1_of(4, 5, 6))


def test_many_classes_are_those_of_sums_written_out():
    draw = random.Random(0)
    names = ["a", "b", "c", "d", "never"]
    labels = [draw.choice(names[:4]) for _ in range(200)]
    predicted = [a if draw.random() < 0.5 else draw.choice(names[:4]) for a in labels]
    values = metrics.classification(labels, predicted, names)
    assert set(values) == {"accuracy", "matthews", "f1"}
    macro = np.mean([f1_of(*counts(labels, predicted, name)) for name in names[:4]])
    # The correlation of K classes, as a correlation of one-hot rows.
    x = np.array([[a == name for name in names] for a in predicted], float)
    y = np.array([[a == name for name in names] for a in labels], float)
    x, y = x - x.mean(0), y - y.mean(0)
    matthews = (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())
    accuracy = sum(a == b for a, b in zip(labels, predicted, strict=True)) / 200
    assert values == pytest.approx({"accuracy": accuracy, "matthews": matthews, "f1": macro})


@pytest.mark.parametrize(
    "labels, predicted, expected",
    [
        ("0000", "0000", (1.0, 0.0, 0.0, 1.0)),
        ("1111", "1111", (1.0, 0.0, 1.0, 1.0)),
        ("0011", "0000", (0.5, 0.0, 0.0, 1 / 3)),
        ("0000", "1111", (0.0, 0.0, 0.0, 0.0)),
        ("0", "1", (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_absent_classes(labels, predicted, expected):
    values = metrics.classification(labels, predicted, ["0", "1"])
    names = ("accuracy", "matthews", "f1", "f1_macro")
    assert values == pytest.approx(dict(zip(names, expected, strict=True)))


def ranks(values):
    """Mean rank of each value among equals."""
    return [
        np.mean([i for i, v in enumerate(sorted(values)) if v == value]) for value in values
    ]


def test_regression_is_that_of_the_formulas():
    draw = np.random.default_rng(0)
    scores = draw.integers(0, 6, 40).astype(float)
    predicted = np.round(scores**2 + draw.normal(0, 3, 40))
    values = metrics.regression(scores, predicted)
    assert values == pytest.approx(
        {
            "pearson": np.corrcoef(scores, predicted)[0, 1],
            "spearman": np.corrcoef(ranks(scores), ranks(predicted))[0, 1],
            "mse": np.mean((scores - predicted) ** 2),
        }
    )
    assert abs(values["pearson"] - values["spearman"]) > 1e-3


@pytest.mark.parametrize(
    "scores, predicted", [([1, 2, 3], [2, 2, 2]), ([2, 2], [1, 3]), ([1], [4])]
)
def test_regression_without_a_correlation(scores, predicted):
    values = metrics.regression(scores, predicted)
    assert values["pearson"] == values["spearman"] == 0.0
    error = [(a - b) ** 2 for a, b in zip(scores, predicted, strict=True)]
    assert values["mse"] == pytest.approx(sum(error) / len(error))


def entities(tags):
    """Entities by a regular expression over a string: one letter a tag, types one by one."""
    found = set()
    for kind in {tag[2:] for tag in tags if tag != "O"}:
        letters = "".join(
            "O" if tag == "O" or tag[2:] != kind else tag[0] for tag in tags
        )
        found |= {(kind, *m.span()) for m in re.finditer("[BI]I*", letters)}
    return found


def test_entities_are_those_of_a_second_reading():
    draw = random.Random(1)
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    tags = [[draw.choice(names) for _ in range(draw.randint(1, 9))] for _ in range(60)]
    predicted = [[t if draw.random() < 0.7 else draw.choice(names) for t in s] for s in tags]
    gold = {(i, *e) for i, s in enumerate(tags) for e in entities(s)}
    guess = {(i, *e) for i, s in enumerate(predicted) for e in entities(s)}
    right = len(gold & guess)
    words = list(zip(sum(tags, []), sum(predicted, []), strict=True))
    values = metrics.tagging(tags, predicted)
    assert 0 < right < len(guess)
    assert values == pytest.approx(
        {
            "accuracy": sum(a == b for a, b in words) / len(words),
            "precision": right / len(guess),
            "recall": right / len(gold),
            "f1": f1_of(right, len(guess), len(gold)),
        }
    )


def test_entities_by_hand():
    tags = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG"]]
    predicted = [["B-PER", "I-PER", "O", "B-PER"], ["I-ORG", "I-ORG"]]
    values = metrics.tagging(tags, predicted)  # 1 of 3 predicted is among the 3
    assert values == pytest.approx(
        {"accuracy": 3 / 6, "precision": 1 / 3, "recall": 1 / 3, "f1": 1 / 3}
    )


def test_tags_that_mark_no_entities():
    assert metrics.tagging([["DT", "NN"], ["O"]], [["DT", "VB"], ["O"]]) == {"accuracy": 2 / 3}
    assert metrics.tagging([["O", "O"]], [["O", "O"]])["f1"] == 0.0
    assert metrics.tagging([["O", "O"]], [["O", "O"]], bio=False) == {"accuracy": 1.0}
    assert metrics.tagging([["O", "B-X"]], [["O", "O"]])["precision"] == 0.0


def test_which_tags_mark_entities():
    assert metrics.bio_is(["O", "B-PER", "I-PER"])
    assert not metrics.bio_is(["O", "B-PER", "NN"])
    assert not metrics.bio_is(["B", "I", "O"])


def test_main_metric():
    assert metrics.main_metric("tag", ["O", "B-PER"]) == "f1"
    assert metrics.main_metric("tag", ["DT"]) == metrics.main_metric("tag") == "accuracy"
    assert {name: metrics.main_metric(name) for name in metrics.MAIN} == metrics.MAIN
    with pytest.raises(ValueError, match="output='words'"):
        metrics.main_metric("words")


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: metrics.classification([], [], ["a"]), "labels: none came"),
        (lambda: metrics.classification(["a"], ["a", "a"], ["a"]), "2 came for 1 labels"),
        (lambda: metrics.classification(["a"], ["x"], ["a", "b"]), "'x' is not among"),
        (lambda: metrics.regression([1.0], [float("nan")]), "predicted: nan came"),
        (lambda: metrics.regression([], []), "scores: none came"),
        (lambda: metrics.tagging([["O"]], [["O", "O"]]), "2 tags came for sentence 1 of 1"),
        (lambda: metrics.tagging([[]], [[]]), "no words"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
