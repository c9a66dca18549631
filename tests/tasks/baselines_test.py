"""Baselines are what the measures say of the same answer for all examples."""

import numpy as np
import pytest

from tfnlp.tasks import Answer, Choose, Classify, Labels, Roles, Similarity, Tag
from tfnlp.tasks.baselines import Baseline, shown_baseline
from tfnlp.tasks.classify import classification
from tfnlp.tasks.labels import label_sets

RNG = np.random.default_rng(5)


def values(task, golds):
    return {name: found.value for name, found in task.baselines(golds).items()}


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c"]])
def test_classes(names):
    shares = [0.7, 0.3] if len(names) == 2 else [0.5, 0.3, 0.2]
    golds = RNG.choice(names, 50, p=shares).tolist()
    found = values(Classify(labels=names), golds)
    every = [classification(golds, [name] * 50, names) for name in names]
    assert set(found) == set(every[0]) - {"matthews"}
    for name, value in found.items():
        assert value == pytest.approx(max(scores[name] for scores in every))


def test_sets_of_labels():
    golds = [["x", "y"], ["x"], [], ["y", "x"], ["z"], ["x"], ["x", "y"]]
    found = Labels(labels=("x",)).baselines(golds)
    always = {name: label_sets(golds, [[name]] * 7, "xyz")["micro_f1"] for name in "xyz"}
    assert found["micro_f1"] == Baseline(pytest.approx(max(always.values())), "always 'x'")
    both = label_sets(golds, [["x", "y"]] * 7, "xyz")["subset_accuracy"]
    assert found["subset_accuracy"] == Baseline(pytest.approx(both), "always 'x', 'y'")
    assert values(Labels(labels=("x",)), [[], []]) == {"subset_accuracy": 1.0}


def test_scores_choices_tags_and_answers():
    scores = [1.0, 2.0, 4.5]
    assert values(Similarity(), scores) == {"mse": pytest.approx(np.var(scores))}
    assert Choose(choices=2).baselines([1, 0, 1])["accuracy"] == Baseline(2 / 3, "always choice 2")
    tags = [["O", "B-PER"], ["O"]]
    for task in (Tag, Roles):
        assert task(labels=("O", "B-PER")).baselines(tags) == {
            "accuracy": Baseline(2 / 3, "always 'O'")
        }
    assert values(Answer(), [["x"], [], ["y"], []]) == {"exact_match": 50.0, "f1": 50.0}
    assert Answer().baselines([["x"]]) == {}


def test_a_line_of_80_columns():
    found = Classify(labels=("a", "b")).baselines(["a_label_that_has_no_space" * 3, "b", "b"])
    assert shown_baseline(found, "accuracy") == "baseline: always 'b'  accuracy 0.6667"
    long = Tag(labels=("O", "X")).baselines([["a_label_that_has_no_space" * 3]])
    line = shown_baseline(long, "f1")  # no answer for all has an F1 of entities
    assert len(line) <= 80 and line.endswith("…as_no_space'  accuracy 1.0000")
    assert shown_baseline({}, "f1") == ""
