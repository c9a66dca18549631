"""Measures against their formulas written out, seqeval's recorded outputs and known values."""

import json
import random
import warnings

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from tests.support import GOLDENS
from tfnlp.data import Question, RoleSentence
from tfnlp.data.labelled.tag_schemes import is_bio
from tfnlp.tasks import Answer, Roles
from tfnlp.tasks.classify import classification
from tfnlp.tasks.entities import entities, entity_scores, tagging, type_scores
from tfnlp.tasks.similarity import regression


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def f1_of(right, guessed, gold):
    precision, recall = right / guessed if guessed else 0.0, right / gold if gold else 0.0
    return 2 * precision * recall / (precision + recall) if right else 0.0


def test_two_classes():
    # TP 3, FN 1, FP 2, TN 4: Matthews (3*4 - 2*1) / sqrt(5 * 4 * 6 * 5)
    labels, predicted = list("1111000000"), list("1110110000")
    values = classification(labels, predicted, ["0", "1"])
    assert values == pytest.approx(
        {
            "accuracy": 0.7,
            "matthews": 10 / np.sqrt(600),
            "f1": 2 * 0.6 * 0.75 / 1.35,
            "f1_macro": (2 * 0.6 * 0.75 / 1.35 + f1_of(4, 5, 6)) / 2,
        }
    )
    turned = classification(labels, predicted, ["1", "0"])
    assert turned["f1"] == pytest.approx(f1_of(4, 5, 6))


def test_many_classes_follow_the_formulas():
    draw = random.Random(0)
    names = ["a", "b", "c", "d", "never"]
    labels = [draw.choice(names[:4]) for _ in range(200)]
    predicted = [a if draw.random() < 0.5 else draw.choice(names[:4]) for a in labels]
    # The correlation of K classes, as a correlation of one-hot rows.
    x = np.array([[a == name for name in names] for a in predicted], float)
    y = np.array([[a == name for name in names] for a in labels], float)
    macro = np.mean(
        [f1_of(*row) for row in zip((x * y).sum(0), x.sum(0), y.sum(0), strict=True)][:4]
    )
    accuracy = (x * y).sum() / 200
    x, y = x - x.mean(0), y - y.mean(0)
    matthews = (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())
    assert classification(labels, predicted, names) == pytest.approx(
        {"accuracy": accuracy, "matthews": matthews, "f1": macro}
    )


@pytest.mark.parametrize(
    "labels, predicted, expected",
    [
        ("0000", "0000", (1.0, None, None, 1.0)),
        ("1111", "1111", (1.0, None, 1.0, 1.0)),
        ("0011", "0000", (0.5, 0.0, 0.0, 1 / 3)),
        ("0000", "1111", (0.0, None, None, 0.0)),
        ("0", "1", (0.0, None, None, 0.0)),
    ],
)
def test_absent_classes(labels, predicted, expected):
    values = classification(labels, predicted, ["0", "1"])
    names = ("accuracy", "matthews", "f1", "f1_macro")
    measured = {n: x for n, x in zip(names, expected, strict=True) if x is not None}
    assert values == pytest.approx(measured)


def ranks(values):
    """Mean rank of each value among equals."""
    return [np.mean([i for i, v in enumerate(sorted(values)) if v == value]) for value in values]


def test_regression_follows_the_formulas():
    draw = np.random.default_rng(0)
    scores = draw.integers(0, 6, 40).astype(float)
    predicted = np.round(scores**2 + draw.normal(0, 3, 40))
    values = regression(scores, predicted)
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
    error = np.mean(np.square(np.subtract(scores, predicted)))
    expected = {"mse": pytest.approx(error)}
    if len(set(scores)) > 1:  # there is a correlation to find
        expected |= {"pearson": 0.0, "spearman": 0.0}
    assert regression(scores, predicted) == expected


def test_without_a_gold_entity_nothing_is_measured():
    tags, predicted = [["O", "O", "O"]], [["O", "B-X", "O"]]
    assert entity_scores(tags, predicted) == {}
    assert tagging(tags, predicted) == {"accuracy": 2 / 3}
    found = type_scores([["B-Y"]], [["B-X"]])
    assert found["X"] == {"gold": 0, "predicted": 1} and found["Y"]["f1"] == 0


@pytest.mark.parametrize("case", json.loads((GOLDENS / "entities_seqeval.json").read_text()))
def test_entities_equal_those_of_seqeval(case):
    """Recorded from seqeval 1.2.2, default mode, on random tags with unopened I- tags."""
    tags, predicted = ([s.split() for s in case[name]] for name in ("tags", "predicted"))
    assert [entities(s) for s in tags] == [[tuple(e) for e in s] for s in case["entities"]]
    names = ("precision", "recall", "f1") if any(case["entities"]) else ()  # which are then 0
    expected = {name: case[name] for name in names}
    assert entity_scores(tags, predicted) == pytest.approx(expected)
    pairs = list(zip(sum(tags, []), sum(predicted, []), strict=True))
    expected["accuracy"] = sum(a == b for a, b in pairs) / len(pairs)
    assert tagging(tags, predicted) == pytest.approx(expected)


def test_tags_that_mark_no_entities():
    assert tagging([["DT", "NN"], ["O"]], [["DT", "VB"], ["O"]]) == {"accuracy": 2 / 3}
    assert tagging([["O", "O"]], [["O", "O"]], bio=False) == {"accuracy": 1.0}
    assert is_bio(["O", "B-PER", "I-PER"])
    assert not is_bio(["O", "B-PER", "NN"])
    assert not is_bio(["B", "I", "O"])


def test_labels_that_were_not_learnt_are_wrong():
    # a: TP 2, FP 1 (the x); b: TP 1. F1 0.8, 1 and of x 0.
    found = classification(list("aabx"), list("aaba"), ["a", "b"])
    assert found["accuracy"] == 3 / 4 and found["f1_macro"] == pytest.approx(1.8 / 3)
    assert found["f1"] == 1.0


@pytest.mark.parametrize(("threshold", "right"), [(0.0, {"1"}), (2.0, {"1", "2"}), (-5.0, {"3"})])
def test_answers_or_none(threshold, right):
    task = Answer(unanswerable=True, threshold=threshold)
    examples = [
        Question("1", "?", "cat", (("cat", 0),)),
        Question("2", "?", "dog", (("dog", 0),)),
        Question("3", "?", "bird", ()),
    ]
    odds = {"1": -3.0, "2": 1.0, "3": -1.0}
    # The task's threshold decides, not the model's answer.
    predictions = [
        {"answer": "", "answers": [e.context, ""], "null_score": odds[e.id]} for e in examples
    ]
    found = task.measures(examples, predictions)
    assert found["exact_match"] == found["f1"] == pytest.approx(100 * len(right) / 3)
    assert found["HasAns_exact"] == 50.0 * len(right - {"3"})
    assert found["NoAns_exact"] == 100.0 * ("3" in right)
    assert found["best_f1"] == pytest.approx(200 / 3)


def test_heads_of_roles_against_scikit_learn():
    """The micro-average over words, with O and the predicate's own tags left out."""
    rng, roles = np.random.default_rng(0), ("O", "ARG0", "ARG1", "C-V", "V")
    gold, guess = (rng.choice(roles, (30, 7)).tolist() for _ in range(2))
    task = Roles(labels=roles)
    examples = [RoleSentence(("w",) * 7, tuple(tags), 0) for tags in gold]
    found = task.measures(examples, [{"tags": tags} for tags in guess])
    flat = [sum(tags, []) for tags in (gold, guess)]
    counted = dict(labels=["ARG0", "ARG1"], average="micro")
    expected = precision_recall_fscore_support(*flat, **counted)[:3]
    np.testing.assert_allclose([found[k] for k in ("precision", "recall", "f1")], expected)
    assert found["accuracy"] == np.mean(np.array(flat[0]) == np.array(flat[1]))
    assert task.main_measure == "f1"


@pytest.mark.parametrize(
    "guess, right",
    [
        (["B-A0", "I-A0", "B-V", "B-A1", "O"], 2),
        (["B-A0", "O", "B-V", "B-A1", "O"], 1),  # another end
        (["B-A0", "I-A0", "O", "B-A1", "O"], 2),  # the predicate does not count
        (["B-A1", "I-A1", "B-V", "B-A0", "O"], 0),
    ],
)
def test_spans_of_roles_are_right_as_a_whole(guess, right):
    gold = RoleSentence(tuple("abcde"), ("B-A0", "I-A0", "B-V", "B-A1", "O"), 2)
    found = Roles(labels=("O", "B-V", "B-A0")).measures([gold], [{"tags": guess}])
    assert found["f1"] == found["precision"] == found["recall"] == right / 2
