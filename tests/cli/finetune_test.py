"""`tfnlp finetune`: what it does beside training, and what it says of bad input."""

import io
import json
import os
import shutil

import numpy as np
import pytest

from tests.cli.command import checkpoint, error, tfnlp
from tests.cli.toy_tasks import (
    TRAINING,
    assert_served,
    backbone,
    finetuned,
    inputs_of,
    read_without_tfnlp,
    roles,
)
from tfnlp.checkpoints import load_bert

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # several trainings a test
BERT = backbone("bert", None)


def test_six_choices_in_one_command(files, tmp_path, capsys):
    """The toy has two layers: the choices that take four are left out and named."""
    run = tmp_path / "all"
    command = ["finetune", "tag", "--model", BERT, *files["tag"], "--output", run]
    command += ["--features", "all", "--units", "4", "--epochs", "0.5", "--batch-size", "8"]
    assert tfnlp(*command, "--cache", tmp_path / "cache") == 0
    err = capsys.readouterr().err
    assert "sum-last-four: left out" in err and "concat-last-four: left out" in err
    kept = json.loads((run / "runs.json").read_text())
    names = ["embeddings", "second-to-last", "last", "sum-all"]
    assert list(kept["runs"]) == names
    for name in names:
        (results,) = (run / name).rglob("results.json")
        assert [json.loads(results.read_text())["metrics"]] == kept["runs"][name]
    best = max((kept["runs"][name][0]["f1"], -i) for i, name in enumerate(names))
    assert kept["best"].split(os.sep)[0] == names[-best[1]]
    assert len(os.listdir(tmp_path / "cache")) == 8  # a table of train and of dev for each choice

    # The folder of all stands for the best of them.
    assert tfnlp("evaluate", "--model", run, "--input", files["tag"][-1], "--json") == 0
    assert json.loads(capsys.readouterr().out)["f1"] == pytest.approx(best[0], abs=1e-6)


@pytest.mark.parametrize(
    "kind, name",
    [("gpt", "tag"), ("elmo", "classify"), pytest.param("roberta", "tag", marks=pytest.mark.long)],
)
def test_exported_module_as_backbone(kind, name, made, files, tmp_path):
    predictions = finetuned(name, made(kind).exported, files, tmp_path / "task")
    assert tfnlp("export", "--model", tmp_path / "task", "--output", tmp_path / "module") == 0
    asked = {name: (tmp_path / "module", inputs_of(name, files[name][-1]))}
    said = read_without_tfnlp(tmp_path, asked)
    assert_served(name, said[name], predictions)


def test_frozen_layers_and_texts_from_the_command_line(files, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    command = ["finetune", "classify", "--model", BERT, *files["pair"], "--output", run, *TRAINING]
    assert tfnlp(*command, "--freeze", "2", "--layer-decay", "0.5") == 0
    after = checkpoint(run, "best")
    moved = {
        variable.path
        for variable in load_bert(BERT).encoder.weights
        if not np.array_equal(variable, after[f"model/{variable.path}"])
    }
    assert not any("embedding" in path or path.startswith("layer_0/") for path in moved)
    assert any(path.startswith("layer_1/") for path in moved)

    capsys.readouterr()
    predict = ["predict", "--model", run]
    assert tfnlp(*predict, "the dog", "a cat", "he was", "here") == 0
    lines = capsys.readouterr().out.strip().split("\n")
    assert [line.split(maxsplit=2)[2] for line in lines] == ["the dog | a cat", "he was | here"]
    monkeypatch.setattr("sys.stdin", io.StringIO("the dog\ta cat\n\nhe was\there\n"))
    assert tfnlp(*predict) == 0
    assert capsys.readouterr().out.strip().split("\n") == lines
    assert tfnlp(*predict, "only one") == 1
    assert "2 for each example" in error(capsys)


def test_what_a_folder_is_not(made, tmp_path, capsys):
    toy, run = made("bert"), tmp_path / "run"
    shutil.copytree(toy.task, run)
    command = ["finetune", "classify", "--train", toy.rows, "--dev", toy.dev]
    assert tfnlp(*command, "--model", toy.run, "--output", run, "--learning-rate", "0.1") == 1
    assert "other settings" in error(capsys) and (run / "results.json").exists()
    assert tfnlp(*command, "--model", run, "--output", tmp_path / "again") == 1
    assert "fine-tuned already" in error(capsys)
    (run / "results.json").write_text("{")
    assert tfnlp("predict", "--model", run, "a text") == 1
    assert "results.json" in error(capsys)


def test_roles_that_follow_from_nothing_but_the_predicate_are_learnt(tmp_path):
    run, files = tmp_path / "run", {"train": roles(80, 3), "dev": roles(20, 4)}
    for name, rows in files.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    command = ["finetune", "roles", "--model", backbone("elmo", tmp_path), "--output", run]
    command += ["--train", tmp_path / "train.jsonl", "--dev", tmp_path / "dev.jsonl"]
    options = ["--units", "16", "--epochs", "12", "--dropout", "0", "--features", "words", "--crf"]
    assert tfnlp(*command, *options, "--batch-size", "8", "--learning-rate", "0.01") == 0
    assert json.loads((run / "results.json").read_text())["metrics"]["f1"] > 0.9
