"""Several numbers for a text: what is read, the loss, the measures, the units."""

import numpy as np
import pytest
from scipy import stats

from tests.tasks.fine_tuning_test import constant_model
from tfnlp.data import TaskExample
from tfnlp.tasks import FineTuning, Scores

EXAMPLES = [
    TaskExample(("a dog",), (("joy", 2.5), ("fear", -1.0))),
    TaskExample(("a cat",), (("joy", 0.0), ("fear", 3.0))),
]


@pytest.mark.parametrize(
    "name, text, columns",
    [
        ("a.jsonl", '{"text": "a dog", "scores": {"joy": 2.5, "fear": -1}}\n'
         '{"text": "a cat", "scores": {"joy": 0, "fear": 3}}\n', {}),
        ("a.jsonl", '{"text": "a dog", "id": 7, "joy": "2.5", "fear": -1}\n'
         '{"text": "a cat", "id": 8, "joy": 0, "fear": 3}\n', {"label": ["joy", "fear"]}),
        ("a.csv", "id,text,joy,fear\n7,a dog,2.5,-1\n8,a cat,0,3\n", {"label": ["joy", "fear"]}),
    ],
)  # fmt: skip
def test_files(tmp_path, name, text, columns):
    (tmp_path / name).write_text(text)
    assert Scores.read(tmp_path / name, **columns).examples == EXAMPLES


def test_rows_of_python():
    rows = [(example.segments[0], dict(example.label)) for example in EXAMPLES]
    assert Scores.read(rows).examples == EXAMPLES
    (found,) = Scores.read([("a dog", [2, 3.5])]).examples  # as data sets of transformers have them
    assert found.label == (("LABEL_0", 2.0), ("LABEL_1", 3.5))
    assert [e.label for e in Scores.read(["a dog"], labelled=False).examples] == [None]
    rows = [{"text": "a dog", "joy": None, "fear": 1}]
    assert Scores.read(rows, label=["joy", "fear"], labelled=False).examples[0].label is None


@pytest.mark.parametrize(
    "rows, columns, said",
    [
        ([{"text": "a", "joy": 1, "fear": 2}], {}, "none of numbers was given; its columns are"),
        ([{"text": "a", "joy": 1, "fear": "x"}], {"label": ["joy", "fear"]}, "'fear' must be a nu"),
        ([{"text": "a", "joy": 1}], {"label": ["joy", "fear"]}, "has no 'fear'"),
        ([("a", {"joy": float("inf")})], {}, "the score 'joy' must be a number; got inf"),
        ([("a", 3)], {}, "its scores must be numbers by name; got 3"),
    ],
)
def test_what_is_no_score_is_refused(rows, columns, said):
    with pytest.raises(ValueError, match=said):
        Scores.read(rows, **columns)


def test_learnt_of_examples_in_their_units():
    task = Scores.learnt_from(EXAMPLES, None, max_length=16)
    assert task.labels == ("joy", "fear") and task.means == (1.25, 1.0)
    _, targets = task.targets(None, EXAMPLES)
    np.testing.assert_allclose(targets["labels"], [[1, -1], [-1, 1]])
    np.testing.assert_allclose(task.decoded({"scores": targets["labels"]})["scores"],
                               [[2.5, -1], [0, 3]])  # fmt: skip
    other = TaskExample(("a",), (("joy", 1.0),))
    assert task.misfit(other) == "has the scores joy; expected joy, fear"
    assert not task.misfit(TaskExample(("a",), (("fear", 1.0), ("joy", 1.0))))
    assert task.rescaled().mean.tolist() == [0, 0]


def test_loss_is_the_mean_of_the_squares():
    """That of `torch.nn.MSELoss` in transformers' classes."""
    rng, task = np.random.default_rng(0), FineTuning(constant_model("scores"))
    x, y, w = rng.normal(size=(5, 4)), rng.normal(size=(5, 4)), np.float32([1, 1, 0, 1, 1])
    batch = {"labels": y.astype("float32"), "weights": w}
    found = task.losses(batch, {"scores": x.astype("float32")})["scores"]
    np.testing.assert_allclose(found, 4 * np.mean((x - y)[w > 0] ** 2), rtol=1e-5)
    assert task.metrics(batch, {"scores": x}) == {} and float(task.targets(batch)["scores"]) == 4


def test_measures_are_those_of_each_score():
    rng, task = np.random.default_rng(1), Scores(labels=("x", "y"))
    gold, guess = rng.normal(size=(2, 30, 2))
    gold[:, 1] = 2  # no correlation to measure
    named = [[dict(zip("xy", row, strict=True)) for row in rows.tolist()] for rows in (gold, guess)]
    examples = [TaskExample(("a",), tuple(row.items())) for row in named[0]]
    found = task.measures(examples, [{"scores": row} for row in named[1]])
    r = stats.pearsonr(gold[:, 0], guess[:, 0])[0]
    assert found["pearson"] == found["pearson/x"] == pytest.approx(r) and "pearson/y" not in found
    assert found["spearman/x"] == pytest.approx(stats.spearmanr(gold[:, 0], guess[:, 0])[0])
    errors = ((gold - guess) ** 2).mean(0)
    assert [found["mse/x"], found["mse/y"]] == pytest.approx(errors)
    assert found["mse"] == pytest.approx(errors.mean())
    best = task.baselines(task.golds(examples))
    assert best["mse"].value == pytest.approx(gold.var(0).mean())
