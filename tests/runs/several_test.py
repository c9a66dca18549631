"""Several runs of one command: folds that are held out in turn, and a search."""

import collections
import json
import os
import pathlib
import sys
import types

import numpy as np
import pytest

import tfnlp
from tests.cli.command import error
from tests.cli.command import tfnlp as command
from tests.cli.toy_tasks import backbone
from tfnlp.data import TaskExample
from tfnlp.runs.finetune_examples import fold_numbers
from tfnlp.runs.several import _suggested, search
from tfnlp.settings.tasks import ClassifySettings
from tfnlp.tasks import Classify, Labels, Tag

BERT = backbone("bert", None)
TEXTS = ["the dog ran", "a cat sat", "the man will go", "he was here", "it is the end"]
ROWS = [(f"{TEXTS[i % 5]} {word}", word) for i in range(9) for word in ("no", "yes")]
SMALL = dict(max_length=16, batch_size=8)


def test_folds_have_as_many_examples_of_each_class():
    examples = [TaskExample(("x",), label) for label in "aaaaaaabbbbbc" * 3]
    folds = fold_numbers(Classify, examples, 5)
    assert max(np.bincount(folds)) - min(np.bincount(folds)) <= 1
    for label in "abc":
        counts = np.bincount([f for f, e in zip(folds, examples, strict=True) if e.label == label],
                             minlength=5)  # fmt: skip
        assert max(counts) - min(counts) <= 1
    assert (folds == fold_numbers(Classify, examples, 5)).all()
    assert len(set(folds[:7])) > 1  # they are mixed
    labels = [TaskExample(("x",), ("common", "rare")[: 1 + (n % 6 == 0)]) for n in range(30)]
    found = fold_numbers(Labels, labels, 5)
    rare = collections.Counter(found[n] for n in range(0, 30, 6))
    assert rare == dict.fromkeys(range(5), 1)
    with pytest.raises(ValueError, match="`folds` 5 of 3 examples"):
        fold_numbers(Tag, examples[:3], 5)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_each_example_is_predicted_by_the_fold_that_did_not_learn_it(tmp_path, capsys):
    run = tmp_path / "run"
    task = tfnlp.finetune("classify", BERT, ROWS, output=run, folds=3, epochs=1, **SMALL)
    rows = [json.loads(line) for line in (run / "out_of_fold.jsonl").read_text().splitlines()]
    folds = fold_numbers(Classify, [TaskExample((t,), y) for t, y in ROWS], 3)
    assert [row["fold"] - 1 for row in rows] == folds.tolist()
    values, best = [], None
    for fold in range(3):
        loaded = tfnlp.load(run / f"fold-{fold + 1}")
        held = [ROWS[n] for n in np.flatnonzero(folds == fold)]
        assert loaded.config["data"]["examples"] == len(ROWS) - len(held)
        values.append(loaded.evaluate(held)["accuracy"])
        for (text, _), row in zip(held, (r for r in rows if r["fold"] == fold + 1), strict=True):
            (found,) = loaded.predict([text])
            assert found["label"] == row["label"]
    out = capsys.readouterr().out
    assert f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" in out
    best = int(np.argmax(values)) + 1
    assert task.folder == str(run / f"fold-{best}") and tfnlp.load(run).folder == task.folder
    right = np.mean([row["label"] == y for row, (_, y) in zip(rows, ROWS, strict=True)])
    assert task.results["out_of_fold"]["accuracy"] == pytest.approx(right)
    assert [e.segments[0] for e in task.dev] == [
        ROWS[n][0] for n in np.flatnonzero(folds == best - 1)
    ]
    before = (run / "runs.json").read_bytes()
    tfnlp.finetune("classify", BERT, ROWS, output=run, folds=3, epochs=1, **SMALL)
    assert capsys.readouterr().out.count("has ended before") == 3
    assert (run / "runs.json").read_bytes() == before


@pytest.mark.parametrize(
    "settings",
    [
        dict(folds=3, dev="d"), dict(folds=3, seeds=[1, 2]), dict(search=3, seeds=[1, 2]),
        dict(folds=2, search=3), dict(features="all", search=3), dict(seeds=[1, 1]),
    ],
)  # fmt: skip
def test_only_one_thing_differs_between_runs(settings):
    with pytest.raises(ValueError, match=f"`{next(iter(settings))}`"):
        ClassifySettings.make(model="m", train="t", output="o", **settings)


SPACE = {"learning_rate": [1e-5, 1e-3], "batch_size": [16, 32], "epochs": [2.0, 3.0]}


def test_a_suggestion_depends_on_the_trials_before_it_alone():
    pytest.importorskip("optuna")
    trials = []
    for _ in range(12):
        settings = _suggested(trials, SPACE, 1)
        assert settings == _suggested(trials, SPACE, 1)
        value = -abs(np.log(settings["learning_rate"] / 1e-4))
        trials.append({"settings": settings, "value": None if len(trials) == 3 else value})
    rates = [trial["settings"]["learning_rate"] for trial in trials]
    assert len(set(rates)) == 12 and all(1e-5 <= rate <= 1e-3 for rate in rates)
    assert {trial["settings"]["batch_size"] for trial in trials} == {16, 32}
    assert _suggested(trials, SPACE, 2) != _suggested(trials, SPACE, 1)


def test_without_optuna_one_line_says_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    path = tmp_path / "rows.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in ROWS))
    call = ["finetune", "classify", "--model", BERT, "--train", path, "--search", "2"]
    assert command(*call, "--output", tmp_path / "run") == 1
    assert "--search needs optuna" in error(capsys)
    assert not (tmp_path / "run" / "study.json").exists()


class Work:
    """Runs without a training: the nearer the learning rate is to 1e-4, the better."""

    features, metric, strategy = None, "accuracy", types.SimpleNamespace(num_replicas_in_sync=1)

    def __init__(self, events=()):
        self.events, self.runs = dict(events), []

    def defaults(self, features=None):
        return {"learning_rate": 3e-4, "batch_size": 32, "epochs": 3.0}

    def run(self, folder, features, seed):
        self.runs.append(os.path.basename(folder))
        if self.runs[-1] in self.events:
            raise self.events.pop(self.runs[-1])
        value = 1 - abs(float(np.log10(self.config.learning_rate / 1e-4)))
        results = {"metrics": {"accuracy": value}, "metric": "accuracy"}
        os.makedirs(folder, exist_ok=True)
        pathlib.Path(folder, "results.json").write_text(json.dumps(results))
        return results


@pytest.mark.slow
def test_a_search_goes_on_and_passes_over_trials_that_fail(tmp_path, capsys):
    pytest.importorskip("optuna")
    found = {}
    for name, events in (
        ("whole", {"trial-3": FloatingPointError("loss is nan")}),
        ("stopped", {"trial-3": FloatingPointError("loss is nan"), "trial-5": KeyboardInterrupt()}),
    ):
        given = config_of_search(tmp_path / name, 8)
        work = Work(events)
        if name == "stopped":
            with pytest.raises(KeyboardInterrupt):
                search(given, work)
            assert not (tmp_path / name / "runs.json").exists()
            work = Work()
        found[name] = search(given, work)
    assert "trial-3" not in work.runs and work.runs[-4:] == [f"trial-{n}" for n in (5, 6, 7, 8)]
    assert found["whole"]["trials"] == found["stopped"]["trials"]
    trials = found["whole"]["trials"]
    assert trials[0]["settings"] == Work().defaults() and trials[2]["failed"] == "loss is nan"
    for trial in trials:
        assert 0.75e-4 <= trial["settings"]["learning_rate"] <= 1.2e-3
        assert trial["settings"]["batch_size"] in (16, 32, 64)
        assert trial["settings"]["epochs"] in (2.0, 3.0, 4.0)
    values = [-1 if t["value"] is None else t["value"] for t in trials]
    best = trials[int(np.argmax(values))]["trial"]
    assert found["whole"]["folder"] == str(tmp_path / "whole" / best)
    assert json.loads((tmp_path / "whole" / "runs.json").read_text())["best"] == best
    assert (tmp_path / "whole" / "search.png").read_bytes()[:4] == b"\x89PNG"
    rows = capsys.readouterr().out.split("\n")
    assert [row for row in rows if row.endswith(" *")][-1].startswith(best)
    assert any("failed" in row and row.startswith("trial-3 ") for row in rows)
    more = search(config_of_search(tmp_path / "whole", 9), Work())["trials"]
    assert more[:8] == trials and len(more) == 9
    for given, said in (
        ({"epochs": 2.0}, "study.json is of a search among"),
        ({"epochs": 2.0, "batch_size": 8, "learning_rate": 1e-3}, "nothing to search"),
    ):
        with pytest.raises(ValueError, match=said):
            search(config_of_search(tmp_path / "whole", 9, **given), Work())
    with pytest.raises(ValueError, match="none of 1 trials came to an end, the first: loss is inf"):
        broken = {"trial-1": FloatingPointError("loss is inf")}
        search(config_of_search(tmp_path / "failed", 1), Work(broken))


def config_of_search(output, count, **more):
    return ClassifySettings.make(model="m", train="t", output=str(output), search=count, **more)
