"""`tfnlp pretrain word2vec` from text to vectors, killed and resumed, and bad input."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from tests.cli.command import error, tfnlp, write_texts
from tfnlp import models
from tfnlp.convert import read_word_vectors
from tfnlp.layers.huffman import huffman_tree
from tfnlp.training.run import restore_weights

TOY = ["--dimension", "8", "--window", "2", "--samples", "6", "--block", "8", "--batch-size", "16"]
TOY += ["--min-count", "2", "--layout", "lines", "--steps", "12", "--steps-per-call", "4"]


def pretrain(text, output, *more):
    return tfnlp("pretrain", "word2vec", "--input", text, "--output", output, *TOY, *more)


def restored(run, **which):
    """The model of a run with the weights of a checkpoint."""
    config = json.loads((run / "config.json").read_text())
    model = models.word2vec(**config["arguments"])
    assert restore_weights(run, model, **which)[0] <= 12
    return model


def tables(run):
    """The weights of a run's newest checkpoint."""
    return restored(run, best=False).get_weights()


def export(run, path):
    """The vectors of a run, as a file."""
    assert tfnlp("export", "--model", run, "--output", path, "--format", "word2vec") == 0
    return path


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A chapter of a book, a sentence a line."""
    return write_texts(tmp_path_factory.mktemp("text"), 40_000, words=9, held_out=1)[0]


@pytest.fixture(scope="module")
def run(text, tmp_path_factory):
    """A finished toy run."""
    folder = tmp_path_factory.mktemp("run") / "run"
    assert pretrain(text, folder, "--tokenize", "--lowercase") == 0
    return folder


def test_a_run_leaves_words_counts_and_vectors(run, text, capsys):
    found = ["checkpoints", "config.json", "counts.txt", "curve.png", "logs", "vocab.txt"]
    assert sorted(os.listdir(run)) == found
    words = (run / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    counts = [int(line) for line in (run / "counts.txt").read_text().split("\n")[:-1]]
    assert len(words) == len(counts) == len(set(words))
    assert {",", ".", "the", "mary"} < set(words) and all(w == w.lower() for w in words)
    assert counts == sorted(counts, reverse=True) and counts[-1] == 2
    assert counts[words.index("the")] > 100 and sum(counts) > 5000
    config = json.loads((run / "config.json").read_text())
    assert config["model"] == "word2vec" and config["arguments"]["vocab_size"] == len(words)
    assert config["text"] == {"tokenize": True, "lowercase": True}
    assert config["corpus"]["words"] == sum(counts)
    vectors, outputs = tables(run)
    assert vectors.shape == outputs.shape == (len(words), 8)
    assert np.abs(vectors).max() > 0.1 and np.abs(outputs).max() > 0.1


@pytest.mark.parametrize("loss", ["negative", "hierarchical"])
def test_a_run_that_was_stopped_ends_bit_identical(loss, run, text, tmp_path, monkeypatch):
    from tfnlp.training import Trainer

    command = ["--tokenize", "--lowercase", "--checkpoint-every", "4", "--evaluate-every", "2"]
    steps = Trainer.train_steps

    def stopped(self, iterator, count):
        if self.step >= 6:
            raise KeyboardInterrupt("stop")
        return steps.__get__(self, Trainer)(iterator, count)

    if loss != "negative":
        run = tmp_path / "whole"
        command += ["--loss", loss]
        assert pretrain(text, run, *command) == 0
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_steps", stopped)
        assert pretrain(text, tmp_path / "run", *command) != 0
    assert sorted(os.listdir(tmp_path / "run" / "checkpoints"))[-1].endswith("4")
    assert pretrain(text, tmp_path / "run", *command) == 0
    for a, b in zip(tables(tmp_path / "run"), tables(run), strict=True):
        np.testing.assert_array_equal(a, b)


def test_cbow_and_a_vocabulary_that_is_given(text, tmp_path, capsys):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("she\nthe\nMary\nhad\nwas\nand\nto\na\nin\nof\nher\nnobody-has-this\n")
    more = ["--architecture", "cbow", "--vocab", vocab, "--sample", "0", "--batch-size", "4"]
    assert pretrain(text, tmp_path / "run", *more) == 0
    out = capsys.readouterr().out
    assert "word2vec (cbow) of 12 words x 8" in out and "a pair" in out
    assert (tmp_path / "run" / "vocab.txt").read_text() == vocab.read_text()
    counts = (tmp_path / "run" / "counts.txt").read_text().split()
    assert len(counts) == 12 and counts[-1] == "0"
    assert pretrain(text, tmp_path / "run", *more, "--window", "3") == 1
    assert "arguments.window was 2, now 3" in error(capsys)


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
@pytest.mark.parametrize("loss", ["hierarchical", "nce"])
def test_other_losses_know_the_counts_of_words(loss, architecture, text, tmp_path, capsys):
    more = ["--loss", loss, "--architecture", architecture, "--tokenize"]
    assert pretrain(text, tmp_path / "run", *more) == 0
    assert f"word2vec ({architecture}, {loss}) of" in capsys.readouterr().out
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    counts = np.array((tmp_path / "run" / "counts.txt").read_text().split(), int)
    weights = {w.path: w.numpy() for w in restored(tmp_path / "run").weights}
    if loss == "hierarchical":
        np.testing.assert_array_equal(weights["loss/softmax/tree"], huffman_tree(counts))
        assert config["arguments"]["depth"] == huffman_tree(counts).shape[1]
    else:
        share = counts**0.75 / np.sum(counts**0.75)
        np.testing.assert_allclose(weights["loss/log_noise"], np.log(share), rtol=1e-5)
    vectors = read_word_vectors(export(tmp_path / "run", tmp_path / "vectors.txt"))
    np.testing.assert_allclose(vectors.vectors, weights["word_embedding/embeddings"], rtol=1e-5)
    assert pretrain(text, tmp_path / "run", "--tokenize", "--architecture", architecture) == 1
    assert f"arguments.loss was {loss}, now None" in error(capsys)


def test_subwords_give_unseen_words_vectors(text, tmp_path, capsys):
    run = tmp_path / "run"
    more = ["--tokenize", "--lowercase", "--subwords", "--buckets", 500]
    assert pretrain(text, run, *more) == 0
    known = (run / "vocab.txt").read_text(encoding="utf-8").split()
    model = models.word2vec(**json.loads((run / "config.json").read_text())["arguments"])
    restore_weights(run, model)
    words = ["mary", "garden", "the"]
    ids = np.array([[known.index(word) for word in words]], "int32")
    trained = model.get_layer("word_embedding")(ids)[0]
    export = ["export", "--model", run, "--output", tmp_path / "module", "--combiner", "sum"]
    assert tfnlp(*export) == 0
    module = tf.saved_model.load(str(tmp_path / "module"))
    np.testing.assert_allclose(module(tf.constant(words)), trained, atol=1e-6)
    assert np.abs(module(tf.constant(["gardening"]))).min() > 0
    capsys.readouterr()
    predict = ["predict", "word2vec", "--model", run, "gardenn", "--top", len(known) // 20]
    assert tfnlp(*predict) == 0
    assert "garden" in capsys.readouterr().out.split()  # it shares most of the n-grams
