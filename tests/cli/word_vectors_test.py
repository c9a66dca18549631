"""word2vec, GloVe and the NNLM from text to vectors, and what all vectors are used for."""

import json
import os
import re

import numpy as np
import pytest
import tensorflow as tf

import tfnlp as library
from tests.cli.command import RUN, checkpoint, error, tfnlp
from tests.support import golden
from tests.tensorboard_pages import projected
from tfnlp import models
from tfnlp.checkpoints import read_word_vectors, write_word_vectors
from tfnlp.data import Cooccurrences, LanguageModelCorpus, WordCorpus, frequent_words
from tfnlp.layers.hierarchical_softmax import huffman_tree
from tfnlp.text import WordVectors, read_words
from tfnlp.training.run import restore_weights


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A file of vectors in which a king is to a man as a queen is to a woman."""
    table = [[1, 1, 0, 0], [1, 0, 0.1, 0], [-1, 0, 0.1, 0], [-1, 1, 0, 0], [0, 0, 1, 1]]
    words = ["king", "man", "woman", "queen", "apple"]
    path = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    write_word_vectors(path, WordVectors(words, np.array(table, "float32")))
    (path.parent / "questions.txt").write_text(
        ": family\nman king woman queen\nking man queen woman\nman king apple woman\n"
        ": gram\nking kings man men\n"
    )
    (path.parent / "pairs.txt").write_text("king queen 9\nking man 8\nman apple 1\nman pear 2\n")
    return path


def config_of(run):
    return json.loads((run / "config.json").read_text())


def words_of(run):
    return (run / "vocab.txt").read_text(encoding="utf-8").splitlines()


def counts_of(run):
    return [int(line) for line in (run / "counts.txt").read_text().splitlines()]


def exported(run, path, form="word2vec"):
    """The vectors of a run, written as a file."""
    assert tfnlp("export", "--model", run, "--output", path, "--format", form) == 0
    return read_word_vectors(path)


def assert_projected(run):
    """TensorBoard's projector has the vectors that are loaded."""
    vectors, words = projected(run)
    loaded = library.load(run).word_vectors
    assert words == loaded.words
    np.testing.assert_allclose(vectors, loaded.vectors, rtol=1e-6)


# --- The runs


@pytest.mark.slow
@pytest.mark.parametrize("family", ["word2vec", "glove", "nnlm"])
def test_the_projector_has_the_words(family, made):
    assert_projected(made(family).run)


@pytest.mark.slow
def test_a_run_of_word2vec(made, tmp_path, capsys):
    run, text = tmp_path / "run", made("word2vec").train
    assert tfnlp(*made("word2vec").command(run, tokenize=True, lowercase=True)) == 0
    assert sorted(os.listdir(run)) == sorted([*RUN, "counts.txt"])
    words, counts = words_of(run), counts_of(run)
    assert len(words) == len(counts) == len(set(words))
    assert {",", ".", "the", "mary"} < set(words) and all(w == w.lower() for w in words)
    assert counts == sorted(counts, reverse=True) and counts[-1] == 2
    config = config_of(run)
    assert config["text"] == {"tokenize": True, "lowercase": True}
    assert config["corpus"]["words"] == sum(counts) < len(text.read_text().split()) * 1.3
    vectors = exported(run, tmp_path / "vectors.txt")
    weights = checkpoint(run, "best")
    tables = [weights[f"model/{name}"] for name in ("word_embedding/embeddings", "loss/kernel")]
    assert tables[0].shape == tables[1].shape == (len(words), 8)
    assert all(np.abs(table).max() > 0.1 for table in tables)
    assert vectors.words == words
    np.testing.assert_allclose(vectors.vectors, tables[0], rtol=1e-5)
    (run / "counts.txt").write_text("many\n")
    assert tfnlp("predict", "--model", run, words[0]) == 1
    assert "counts.txt" in error(capsys)


@pytest.mark.slow
def test_a_held_out_text_of_which_nothing_is_left_is_not_measured(tmp_path, capsys):
    """Each of the eight words is so frequent that subsampling leaves out nearly all."""
    documents = [["The robin sang .", "Mary heard it ."], ["It rained .", "Nobody came ."]] * 40
    vectors = library.pretrain(
        "word2vec", documents, tmp_path / "run", dimension=8, min_count=1, batch_size=1, epochs=2
    )
    out, err = capsys.readouterr()
    assert "held out, after" in out and "nothing to measure" in out and "0.0000" not in out
    assert "no target of pairs, which is not measured" in err
    assert "loss" not in vectors.results and vectors.history.best_step("loss") is None
    assert not list((tmp_path / "run" / "checkpoints").glob("best-*"))
    assert {"step"} == set().union(*vectors.history.validation)
    library.export(vectors, tmp_path / "module")  # its card has no measures


@pytest.mark.slow
@pytest.mark.parametrize("loss, architecture", [("hierarchical", "cbow"), ("nce", "skipgram")])
def test_other_losses_know_the_counts_of_words(loss, architecture, made, tmp_path):
    run = tmp_path / "run"
    changes = dict(loss=loss, architecture=architecture)
    if loss == "hierarchical":
        changes["samples"] = None
    assert tfnlp(*made("word2vec").command(run, **changes)) == 0
    weights, counts = checkpoint(run, "best"), np.array(counts_of(run))
    if loss == "hierarchical":
        np.testing.assert_array_equal(weights["model/loss/softmax/tree"], huffman_tree(counts))
        assert config_of(run)["arguments"]["depth"] == huffman_tree(counts).shape[1]
    else:
        share = counts**0.75 / np.sum(counts**0.75)
        np.testing.assert_allclose(weights["model/loss/log_noise"], np.log(share), rtol=1e-5)
    vectors = exported(run, tmp_path / "vectors.txt").vectors
    np.testing.assert_allclose(vectors, weights["model/word_embedding/embeddings"], rtol=1e-5)


@pytest.mark.slow
def test_subwords_give_unseen_words_vectors(made, tmp_path, capsys):
    run, module = tmp_path / "run", tmp_path / "module"
    more = dict(tokenize=True, lowercase=True, subwords=True, buckets=500)
    assert tfnlp(*made("word2vec").command(run, **more)) == 0
    known, words = words_of(run), ["mary", "garden", "the"]
    model = models.word2vec(**config_of(run)["arguments"])
    restore_weights(run, model)
    ids = np.array([[known.index(word) for word in words]], "int32")
    trained = model.get_layer("word_embedding")(ids)[0]
    assert tfnlp("export", "--model", run, "--output", module, "--combiner", "sum") == 0
    module = tf.saved_model.load(str(module))
    np.testing.assert_allclose(module(tf.constant(words)), trained, atol=1e-6)
    assert np.abs(module(tf.constant(["gardening"]))).min() > 0
    capsys.readouterr()
    predict = ["predict", "--model", run, "gardenn", "--top", len(known) // 20]
    assert tfnlp(*predict) == 0
    found = set(capsys.readouterr().out.split())
    assert {"garden", "gardens"} & found  # which share most of the n-grams
    assert_projected(run)


@pytest.mark.slow
def test_a_run_of_glove(made, tmp_path, capsys):
    toy = made("glove")
    assert sorted(os.listdir(toy.run)) == sorted([*RUN, "counts.txt"])
    lines = [line for line in toy.train.read_text(encoding="utf-8").splitlines() if line]
    words = frequent_words(lines, 2)
    assert words_of(toy.run) == words
    want = dict(vocab_size=len(words), hidden_size=8, x_max=100.0, alpha=0.75)
    assert config_of(toy.run)["arguments"] == want
    assert tfnlp(*toy.command(toy.copied(tmp_path))) == 0  # there is nothing left to train
    cells = Cooccurrences.count(WordCorpus.build(lines, words), 4)
    out = capsys.readouterr().out
    assert f"GloVe of {len(words):,} words x 8;" in out
    assert f"{len(cells.rows):,} pairs of words near each other" in out
    weights = checkpoint(toy.run, "best")
    want = weights["model/word_embedding/embeddings"] + weights["model/loss/kernel"]
    vectors = exported(toy.run, tmp_path / "vectors.txt", "glove").vectors
    np.testing.assert_allclose(vectors, want, rtol=1e-5)
    np.testing.assert_allclose(library.load(toy.run)(words[:3]), want[:3], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"loss": "nce", "samples": 40}], ids=str)
def test_the_nnlm_is_measured_as_it_was_trained(more, made, tmp_path, capsys):
    toy, run = made("nnlm"), tmp_path / "run"
    if more:
        assert tfnlp(*toy.command(run, **more)) == 0
        capsys.readouterr()
    else:
        run = toy.copied(tmp_path)
    assert tfnlp(*toy.command(run, **more)) == 0  # the same again: nothing is left to train
    measured = float(re.search(r"perplexity ([\d.]+)", capsys.readouterr().out)[1])
    text = ["--input", toy.valid, "--layout", "lines"]
    assert tfnlp("evaluate", "--model", run, *text, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["perplexity"] == pytest.approx(measured, abs=0.01)
    lines = [line for line in toy.valid.read_text(encoding="utf-8").splitlines() if line]
    corpus = LanguageModelCorpus.build([lines], read_words(run / "vocab.txt"), progress=False)
    assert found["tokens"] == corpus.num_tokens and found["sentences"] == len(lines)
    assert found["unknown_words"] == int(np.sum(corpus.ids >= 200)) > 0


# --- What vectors are used for


@pytest.mark.slow
def test_nearest_words(file, capsys):
    assert tfnlp("predict", "--model", file, "king", "-", "man", "+", "woman") == 0
    assert capsys.readouterr().out.split("\n")[1].endswith("  queen")
    assert tfnlp("predict", "--model", file, "king", "apple", "--top", "1") == 0
    cosine = 1 / (2 * 1.01) ** 0.5
    assert capsys.readouterr().out == f"king\n  {cosine:.3f}  man\napple\n  0.070  man\n"
    model = golden("word_vectors_gensim") / "fasttext.bin"
    assert tfnlp("predict", "--model", model, "gardenerish", "--top", "2") == 0
    best = "  {1:.3f}  {0}".format(*read_word_vectors(model).most_similar(["gardenerish"])[0])
    assert capsys.readouterr().out.split("\n")[1] == best


def test_analogies_and_similarity(file, capsys):
    folder = file.parent
    sets = ["--analogies", folder / "questions.txt", "--similarity", folder / "pairs.txt"]
    assert tfnlp("evaluate", "--model", file, *sets) == 0
    assert re.search(r"family +66.7%  2 of 3, 0 not asked", capsys.readouterr().out)
    assert tfnlp("evaluate", "--model", file, *sets, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    total = {"accuracy": 2 / 3, "correct": 2, "seen": 3, "asked": 4}
    assert found["analogies"]["total"] == pytest.approx(total)
    assert found["analogies"]["gram"]["accuracy"] is None
    # Cosines: 0 for king and queen, 0.70, and 0.07: of the ranks 3 2 1 and 1 3 2.
    rated = found["similarity"][str(folder / "pairs.txt")]
    assert rated == pytest.approx({"spearman": -0.5, "seen": 3, "asked": 4})
