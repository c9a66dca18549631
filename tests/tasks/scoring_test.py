"""Measures of predictions against values computed by hand, and those of scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from tfnlp.data import Question, RoleSentence, TaggedSentence, TaskExample
from tfnlp.tasks import Answer, Choose, Classify, Roles, Similarity, Tag


@pytest.mark.parametrize(
    "task, name, golds, guesses, expected, main",
    [
        # Of "yes" 2 right, 1 wrong, 1 missed; of "no" 1 right.
        (
            Classify(labels=("no", "yes")),
            "label", "yes yes no no yes".split(), "yes no no yes yes".split(),
            {"accuracy": 3 / 5, "f1": 2 / 3, "matthews": 1 / 6}, "accuracy",
        ),
        # Centred: (-4, -1, 5)/3 and (-2, -5, 7)/3.
        (
            Similarity(texts=2, mean=3.0, deviation=2.0),
            "score", [1.0, 2.0, 4.0], [2.0, 1.0, 5.0],
            {"pearson": 48 / math.sqrt(42 * 78), "spearman": 0.5, "mse": 1.0}, "pearson",
        ),
        (
            Choose(choices=2),
            "choice", [0, 1, 1], [0, 0, 1], {"accuracy": 2 / 3}, "accuracy",
        ),
    ],
)  # fmt: skip
def test_one_answer_an_example(task, name, golds, guesses, expected, main):
    examples = [TaskExample(("x",), gold) for gold in golds]
    found = task.measures(examples, [{name: guess} for guess in guesses])
    assert {key: found[key] for key in expected} == pytest.approx(expected)
    assert task.main_measure == main


def test_tags():
    task = Tag(labels=("B-A", "I-A", "O"))
    gold = [("B-A", "I-A", "O"), ("O", "B-A")]
    examples = [TaggedSentence(tuple("xyz"[: len(tags)]), tags) for tags in gold]
    found = task.measures(examples, [{"tags": ["B-A", "O", "O"]}, {"tags": ["O", "B-A"]}])
    assert found == {"accuracy": 4 / 5, "precision": 0.5, "recall": 0.5, "f1": 0.5}
    assert task.main_measure == "f1"
    plain = Tag(labels=("N", "V"))
    examples = [TaggedSentence(("x", "y"), ("N", "V"))]
    assert plain.measures(examples, [{"tags": ["N", "N"]}]) == {"accuracy": 0.5}
    assert plain.main_measure == "accuracy"


def test_answers():
    task = Answer()
    examples = [
        Question("1", "?", "the red cat", (("red cat", 4), ("cat", 8))),
        Question("2", "?", "a dog ran", (("dog ran", 2),)),
    ]
    found = task.measures(examples, [{"answer": "The Cat!"}, {"answer": "dog"}])
    assert found == {"exact_match": 50.0, "f1": pytest.approx(100 * (1 + 2 / 3) / 2)}
    assert task.main_measure == "f1" and Answer(unanswerable=True).main_measure == "best_f1"


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
