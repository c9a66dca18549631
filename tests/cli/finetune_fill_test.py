"""`tfnlp finetune fill` and what the other commands do with its run, and bad input."""

import json
import os

import numpy as np
import pytest

from tests.cli.command import RUN, checkpoint, error, tfnlp
from tests.support import golden
from tfnlp.checkpoints import load_bert
from tfnlp.text import read_vocabulary

pytestmark = pytest.mark.slow

TRAINING = ["--seq-length", "16", "--batch-size", "8", "--steps-per-call", "2"]
GOOGLE = golden("bert_google_tf_generated")


def fill(model, text, output, *more):
    command = ["finetune", "fill", "--model", model, "--train", text, "--output", output]
    return tfnlp(*command, "--layout", "lines", *TRAINING, *more)


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
