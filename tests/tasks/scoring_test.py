"""Measures of predictions against values computed by hand."""

import math

import pytest

from tfnlp.data import Question, TaggedSentence, TaskExample
from tfnlp.tasks.scoring import main_metric, score
from tfnlp.tasks.task_spec import TaskSpec


@pytest.mark.parametrize(
    "spec, name, golds, guesses, expected, main",
    [
        # Of "yes" 2 right, 1 wrong, 1 missed; of "no" 1 right.
        (
            TaskSpec("classify", labels=("no", "yes")),
            "label", "yes yes no no yes".split(), "yes no no yes yes".split(),
            {"accuracy": 3 / 5, "f1": 2 / 3, "matthews": 1 / 6}, "accuracy",
        ),
        # Centred: (-4, -1, 5)/3 and (-2, -5, 7)/3.
        (
            TaskSpec("similarity", texts=2, mean=3.0, deviation=2.0),
            "score", [1.0, 2.0, 4.0], [2.0, 1.0, 5.0],
            {"pearson": 48 / math.sqrt(42 * 78), "spearman": 0.5, "mse": 1.0}, "pearson",
        ),
        (
            TaskSpec("choose", choices=2),
            "choice", [0, 1, 1], [0, 0, 1], {"accuracy": 2 / 3}, "accuracy",
        ),
    ],
)  # fmt: skip
def test_one_answer_an_example(spec, name, golds, guesses, expected, main):
    examples = [TaskExample(("x",) * spec.texts, gold) for gold in golds]
    found = score(spec, examples, [{name: guess} for guess in guesses])
    assert {key: found[key] for key in expected} == pytest.approx(expected)
    assert main_metric(spec) == main


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
