"""Scores of semantic roles against scikit-learn and seqeval's counts of spans."""

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from tfnlp.data import RoleSentence
from tfnlp.tasks import TaskSpec
from tfnlp.tasks.scoring import main_metric, score

ROLES = ("O", "ARG0", "ARG1", "C-V", "V")


def test_heads_against_scikit_learn():
    """The micro-average over words, with O and the predicate's own tags left out."""
    rng = np.random.default_rng(0)
    gold, guess = (rng.choice(ROLES, (30, 7)).tolist() for _ in range(2))
    spec = TaskSpec("roles", ROLES)
    examples = [RoleSentence(("w",) * 7, tuple(tags), 0) for tags in gold]
    found = score(spec, examples, [{"tags": tags} for tags in guess])
    flat = [sum(tags, []) for tags in (gold, guess)]
    counted = dict(labels=["ARG0", "ARG1"], average="micro")
    expected = precision_recall_fscore_support(*flat, **counted)[:3]
    np.testing.assert_allclose([found[k] for k in ("precision", "recall", "f1")], expected)
    assert found["accuracy"] == np.mean(np.array(flat[0]) == np.array(flat[1]))
    assert main_metric(spec) == "f1"


@pytest.mark.parametrize(
    "guess, right",
    [
        (["B-A0", "I-A0", "B-V", "B-A1", "O"], 2),
        (["B-A0", "O", "B-V", "B-A1", "O"], 1),  # another end
        (["B-A0", "I-A0", "O", "B-A1", "O"], 2),  # the predicate does not count
        (["B-A1", "I-A1", "B-V", "B-A0", "O"], 0),
    ],
)
def test_spans_are_right_as_a_whole(guess, right):
    gold = RoleSentence(tuple("abcde"), ("B-A0", "I-A0", "B-V", "B-A1", "O"), 2)
    found = score(TaskSpec("roles", ("O", "B-V", "B-A0")), [gold], [{"tags": guess}])
    assert found["f1"] == found["precision"] == found["recall"] == right / 2
