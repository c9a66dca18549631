"""`tfnlp pretrain glove` from text to vectors, killed and resumed, and the use of its runs."""

import json
import os

import numpy as np
import pytest

import tfnlp as tfnlp_python
from tests.cli.command import error, tfnlp, write_texts
from tfnlp import models
from tfnlp.convert import read_word_vectors
from tfnlp.data import Cooccurrences, WordCorpus, frequent_words
from tfnlp.training.run import restore_weights

TOY = ["--dimension", "8", "--window", "4", "--batch-size", "64", "--learning-rate", "0.3"]
TOY += ["--min-count", "2", "--layout", "lines", "--steps", "12", "--steps-per-call", "4"]


def pretrain(texts, output, *more):
    files = ["--input", texts[0], "--valid", texts[1], "--output", output]
    return tfnlp("pretrain", "glove", *files, *TOY, *more)


def restored(run, **which):
    model = models.glove(**json.loads((run / "config.json").read_text())["arguments"])
    restore_weights(run, model, **which)
    return {w.path: w.numpy() for w in model.weights}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A chapter of a book, a sentence a line, and some sentences held out."""
    return write_texts(tmp_path_factory.mktemp("text"), 40_000, words=9, held_out=40)


@pytest.fixture(scope="module")
def run(texts, tmp_path_factory):
    """A finished toy run."""
    folder = tmp_path_factory.mktemp("run") / "run"
    assert pretrain(texts, folder) == 0
    return folder


def test_a_run_leaves_words_counts_and_vectors(run, texts, tmp_path, capsys):
    found = ["checkpoints", "config.json", "counts.txt", "curve.png", "logs", "vocab.txt"]
    assert sorted(os.listdir(run)) == found
    lines = texts[0].read_text(encoding="utf-8").splitlines()
    words = frequent_words(lines, 2)
    assert (run / "vocab.txt").read_text(encoding="utf-8").split() == words
    config = json.loads((run / "config.json").read_text())
    assert config["model"] == "glove" and config["training"]["window"] == 4
    assert config["arguments"] == dict(
        vocab_size=len(words), hidden_size=8, x_max=100.0, alpha=0.75
    )
    assert pretrain(texts, run) == 0  # there is nothing left to train
    cells = Cooccurrences.count(WordCorpus.build(lines, words), 4)
    out = capsys.readouterr().out
    assert f"GloVe of {len(words):,} words x 8;" in out
    assert f"{len(cells.rows):,} pairs of words near each other" in out and "a pair of words" in out
    export = ["export", "--model", run, "--output", tmp_path / "vectors.txt", "--format", "glove"]
    assert tfnlp(*export) == 0
    weights = restored(run)
    want = weights["word_embedding/embeddings"] + weights["loss/kernel"]
    np.testing.assert_allclose(read_word_vectors(tmp_path / "vectors.txt").vectors, want, rtol=1e-5)
    np.testing.assert_allclose(tfnlp_python.load(run)(words[:3]), want[:3], rtol=1e-5)
    (tmp_path / "pairs.txt").write_text(f"{words[0]} {words[1]} 3\n{words[2]} {words[3]} 1\n")
    evaluate = ["evaluate", "--model", run, "--similarity", tmp_path / "pairs.txt"]
    assert tfnlp(*evaluate) == 0 and "of 2 pairs, 0 left out" in capsys.readouterr().out
    assert tfnlp("predict", "word2vec", "--model", run, words[0], "--top", "3") == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_a_run_that_was_stopped_ends_bit_identical(run, texts, tmp_path, monkeypatch):
    from tfnlp.training import Trainer

    steps = Trainer.train_steps

    def stopped(self, iterator, count):
        if self.step >= 6:
            raise KeyboardInterrupt("stop")
        return steps.__get__(self, Trainer)(iterator, count)

    command = ["--checkpoint-every", "4", "--evaluate-every", "2"]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_steps", stopped)
        assert pretrain(texts, tmp_path / "run", *command) != 0
    assert pretrain(texts, tmp_path / "run", *command) == 0
    want = restored(run, best=False)
    for name, value in restored(tmp_path / "run", best=False).items():
        np.testing.assert_array_equal(value, want[name])


def test_another_window_is_another_run(run, texts, capsys):
    assert pretrain(texts, run, "--left-only") == 1
    assert "training.left_only was False, now True" in error(capsys)
