"""Measures of predictions against values computed by hand."""

import math

import pytest

from tfnlp.data import Question, TaggedSentence, TaskExample
from tfnlp.tasks.scoring import main_metric, score
from tfnlp.tasks.task_spec import TaskSpec


def test_classes():
    spec = TaskSpec("classify", labels=("no", "yes"))
    examples = [TaskExample(("x",), label) for label in ("yes", "yes", "no", "no", "yes")]
    found = score(spec, examples, [{"label": x} for x in ("yes", "no", "no", "yes", "yes")])
    # Of "yes" 2 right, 1 wrong, 1 missed; of "no" 1 right.
    assert found["accuracy"] == 3 / 5 and found["f1"] == pytest.approx(2 / 3)
    assert found["matthews"] == pytest.approx((2 * 1 - 1 * 1) / math.sqrt(3 * 3 * 2 * 2))
    assert main_metric(spec) == "accuracy"


def test_scores():
    spec = TaskSpec("similarity", texts=2, mean=3.0, deviation=2.0)
    examples = [TaskExample(("x", "y"), label) for label in (1.0, 2.0, 4.0)]
    found = score(spec, examples, [{"score": x} for x in (2.0, 1.0, 5.0)])
    # Centred: (-4, -1, 5)/3 and (-2, -5, 7)/3.
    assert found["pearson"] == pytest.approx((8 + 5 + 35) / math.sqrt(42 * 78))
    assert found["spearman"] == pytest.approx(0.5)
    assert found["mse"] == pytest.approx(1.0)
    assert main_metric(spec) == "pearson"


def test_choices():
    spec = TaskSpec("choose", choices=2)
    examples = [TaskExample(("x",), label, ("a", "b")) for label in (0, 1, 1)]
    assert score(spec, examples, [{"choice": x} for x in (0, 0, 1)]) == {"accuracy": 2 / 3}
    assert main_metric(spec) == "accuracy"


def test_tags():
    spec = TaskSpec("tag", labels=("B-A", "I-A", "O"))
    gold = [("B-A", "I-A", "O"), ("O", "B-A")]
    examples = [TaggedSentence(tuple("xyz"[: len(tags)]), tags) for tags in gold]
    found = score(spec, examples, [{"tags": ["B-A", "O", "O"]}, {"tags": ["O", "B-A"]}])
    assert found == {"accuracy": 4 / 5, "precision": 0.5, "recall": 0.5, "f1": 0.5}
    assert main_metric(spec) == "f1"
    plain = TaskSpec("tag", labels=("N", "V"))
    examples = [TaggedSentence(("x", "y"), ("N", "V"))]
    assert score(plain, examples, [{"tags": ["N", "N"]}]) == {"accuracy": 0.5}
    assert main_metric(plain) == "accuracy"


def test_answers():
    spec = TaskSpec("answer")
    examples = [
        Question("1", "?", "the red cat", (("red cat", 4), ("cat", 8))),
        Question("2", "?", "a dog ran", (("dog ran", 2),)),
    ]
    found = score(spec, examples, [{"answer": "The Cat!"}, {"answer": "dog"}])
    assert found == {"exact_match": 50.0, "f1": pytest.approx(100 * (1 + 2 / 3) / 2)}
    assert main_metric(spec) == "f1"


@pytest.mark.parametrize(("threshold", "right"), [(0.0, {"1"}), (2.0, {"1", "2"}), (-5.0, {"3"})])
def test_answers_or_none(threshold, right):
    spec = TaskSpec("answer", unanswerable=True, threshold=threshold)
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
    found = score(spec, examples, predictions)
    assert found["exact_match"] == found["f1"] == pytest.approx(100 * len(right) / 3)
    assert found["HasAns_exact"] == 50.0 * len(right - {"3"})
    assert found["NoAns_exact"] == 100.0 * ("3" in right)
    assert found["best_f1"] == pytest.approx(200 / 3)
