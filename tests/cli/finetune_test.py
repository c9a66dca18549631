"""`tfnlp finetune`: every task from its files to a served model, what else it does, and `fill`."""

import io
import json
import os
import shutil

import numpy as np
import pytest

from tests.cli.command import RUN, checkpoint, error, tfnlp
from tests.cli.toy_tasks import (
    TRAINING,
    assert_evaluated_and_predicted,
    assert_served,
    backbone,
    finetuned,
    inputs_of,
    read_without_tfnlp,
    roles,
    write_toys,
)
from tests.support import golden
from tfnlp.checkpoints import load_bert
from tfnlp.text import read_vocabulary

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
    [
        ("elmo", "classify"),
        *(pytest.param(kind, "tag", marks=pytest.mark.long) for kind in ("gpt", "roberta")),
    ],
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


FILL = ["--seq-length", "16", "--batch-size", "8", "--steps-per-call", "2"]
GOOGLE = golden("bert_google_tf_generated")


def fill(model, text, output, *more):
    command = ["finetune", "fill", "--model", model, "--train", text, "--output", output]
    return tfnlp(*command, "--layout", "lines", *FILL, *more)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text to go on with: alike lines, six a document."""
    path = tmp_path_factory.mktemp("text") / "own.txt"
    path.write_text("\n\n".join(["\n".join(["the garden was in the house"] * 6)] * 20) + "\n")
    return path


@pytest.fixture(scope="module")
def pretrained(made):
    return made("bert").run


LONG = ["--steps", "40", "--checkpoint-every", "20", "--learning-rate", "0.03"]


@pytest.fixture(scope="module")
def run(pretrained, text, tmp_path_factory):
    """A run that went on."""
    folder = tmp_path_factory.mktemp("fill") / "run"
    assert fill(pretrained, text, folder, *LONG) == 0
    return folder


def test_the_result_is_a_bert_run(run, pretrained, text, capsys):
    assert sorted(os.listdir(run)) == RUN
    assert (run / "vocab.txt").read_bytes() == (pretrained / "vocab.txt").read_bytes()
    config, before = (json.loads((f / "config.json").read_text()) for f in (run, pretrained))
    assert config["training"]["from"] == str(pretrained)
    assert before["arguments"].items() <= config["arguments"].items()
    assert config["text"] == before["text"] and config["heads"]["next_sentence"]
    assert fill(run, text, run, "--restart") == 1  # its own model is no output
    assert "--model and --output are the same folder" in error(capsys)
    assert (run / "checkpoints").exists()


def test_it_is_better_on_the_text_than_before(run, pretrained, text, capsys):
    found = []
    for model in (pretrained, run):
        command = ["evaluate", "--model", model, "--input", text, "--layout", "lines"]
        assert tfnlp(*command, "--seq-length", "16", "--batches", "4", "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["masked_lm_loss"] > 4 > 2.5 > found[1]["masked_lm_loss"]
    assert found[0]["masked_lm_accuracy"] < 0.1 < 0.15 < found[1]["masked_lm_accuracy"]


def test_lines_that_are_documents_have_no_next_sentences(pretrained, tmp_path, capsys):
    text, run = tmp_path / "lines.txt", tmp_path / "run"
    text.write_text("\n\n".join(["the garden was in the house"] * 60) + "\n")
    assert fill(pretrained, text, run, "--steps", "2") == 0
    captured = capsys.readouterr()
    assert "next sentences are left out" in captured.err
    assert "next-sentence accuracy" not in captured.out
    names = " ".join(checkpoint(run))
    assert "next_sentence_head" not in names and "pooler" in names  # the encoder stays as it was
    assert tfnlp("predict", "--model", run, "a", "--pair", "b") == 1
    assert "no next-sentence head" in error(capsys)


def test_going_on_with_a_checkpoint_of_google(text, tmp_path):
    command = ["finetune", "fill", "--model", GOOGLE, "--train", text, "--layout"]
    command += ["lines", "--output", tmp_path / "run", "--steps", "2", "--batch-size", "4"]
    assert tfnlp(*command) == 0
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["training"]["seq_length"] == 40  # its positions
    assert config["training"]["learning_rate"] == 3e-4
    before, after = load_bert(GOOGLE), checkpoint(tmp_path / "run", "best")
    assert config["text"]["lowercase"] == before.tokenizer.lowercase
    assert read_vocabulary(tmp_path / "run/vocab.txt") == list(before.tokenizer.vocabulary)
    for variable in before.pretrainer.weights:
        found = after[f"model/{variable.path}"]
        np.testing.assert_allclose(found, variable, atol=2e-3)  # two small updates away


# Encoders after BERT share its heads; what may differ is where pieces stand in a text. A GPT and
# an ELMo have heads of their own. Each task is evaluated and predicted with one backbone.
CROSSED = [
    ("bert", ["pair", "labels", "crf", "roles", "coref"]),
    ("elmo", ["choose", "answer", "coref"]),
    ("gpt", ["choose", "answer"]),
]
IN_LONG = [
    ("bert", ["similarity", "scores", "choose", "answer"]),
    ("gpt", ["similarity", "scores", "pair", "tag", "roles", "coref"]),
    ("elmo", ["pair", "scores", "crf", "roles"]),
    ("roberta", ["answer"]),
    ("xlm-roberta", ["answer", "tag"]),
    ("mpnet", ["pair", "labels", "similarity", "scores", "choose", "answer", "crf"]),
    ("mpnet", ["roles", "coref"]),
    ("albert", ["answer"]),
    ("distilbert", ["answer"]),
    ("electra", ["pair", "coref"]),
]


@pytest.mark.parametrize(
    "kind, names",
    [*CROSSED, *(pytest.param(*row, marks=pytest.mark.long) for row in IN_LONG)],
)
def test_from_files_to_predictions_and_an_export(kind, names, tmp_path, capsys):
    files = write_toys(tmp_path)
    model = backbone(kind, tmp_path)
    predictions, asked = {}, {}
    for name in names:
        folder = tmp_path / name
        run, module = folder / "run", folder / "module"
        predictions[name] = finetuned(name, model, files, run)
        if kind == "bert" or name == names[0]:
            assert_evaluated_and_predicted(name, run, files, predictions[name], folder, capsys)
        assert tfnlp("export", "--model", run, "--output", module) == 0
        asked[name] = module, inputs_of(name, files[name][-1])

    said = read_without_tfnlp(tmp_path, asked)
    for name in predictions:
        assert_served(name, said[name], predictions[name])
        assert said[name]["names"] == said[name]["names_asset"]
        if name in ("tag", "crf"):
            assert said[name]["names"] == ["B-x", "I-x", "O"]
