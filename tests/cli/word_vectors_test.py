"""`tfnlp pretrain nnlm`, and what all word vectors are used for: evaluate, predict, export."""

import collections
import json
import os
import re

import numpy as np
import pytest
import tensorflow as tf

import tfnlp as tfnlp_python
from tests.cli.command import RUN, checkpoint, error, tfnlp, write_texts
from tests.support import ROOT, golden, run_python
from tfnlp.convert import read_word_vectors, write_word_vectors
from tfnlp.data import LanguageModelCorpus
from tfnlp.text import WordVectors, read_words

TOY = ["--context", "2", "--embedding-size", "6", "--hidden-size", "8", "--batch-size", "32"]
TOY += ["--layout", "lines", "--max-vocab", "200", "--steps", "12", "--steps-per-call", "4"]


def pretrain(texts, output, *more):
    train, valid = texts
    files = ["--input", train, "--valid", valid, "--output", output]
    return tfnlp("pretrain", "nnlm", *files, *TOY, *more)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A training text, a sentence a line, and a held-out one."""
    return write_texts(tmp_path_factory.mktemp("text"), 20_000, words=9, held_out=40)


@pytest.fixture(scope="module")
def run(texts, tmp_path_factory):
    """A finished toy run."""
    folder = tmp_path_factory.mktemp("run") / "run"
    assert pretrain(texts, folder) == 0
    return folder


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


# --- The NNLM's run


def test_run_leaves_what_it_promises(run):
    assert sorted(os.listdir(run)) == RUN
    words = read_words(run / "vocab.txt")
    assert len(words) == 200 and words[:3] == ["<S>", "</S>", "<UNK>"]
    config = json.loads((run / "config.json").read_text())
    assert config["model"] == "nnlm" and config["arguments"]["context"] == 2


@pytest.mark.parametrize("loss", [(), ("hierarchical",), ("nce", "--samples", "40")])
def test_evaluate_says_what_training_said(loss, run, texts, tmp_path, capsys):
    more = ("--loss", *loss) if loss else ()
    if loss:
        run = tmp_path / "run"
        assert pretrain(texts, run, *more) == 0
        capsys.readouterr()
    assert pretrain(texts, run, *more) == 0  # the same again: nothing is left to train
    printed = capsys.readouterr().out
    measured = float(re.search(r"perplexity ([\d.]+)", printed)[1])
    assert "NNLM with 0.00 M parameters" in printed
    text = ["--input", texts[1], "--layout", "lines"]
    assert tfnlp("evaluate", "--model", run, *text, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["perplexity"] == pytest.approx(measured, abs=0.01)
    lines = texts[1].read_text(encoding="utf-8").splitlines()
    corpus = LanguageModelCorpus.build([lines], read_words(run / "vocab.txt"), progress=False)
    assert found["tokens"] == corpus.num_tokens and found["sentences"] == 40
    assert found["unknown_words"] == int(np.sum(corpus.ids >= 200)) > 0


def test_a_tree_gives_probabilities_of_all_words(texts, tmp_path):
    assert pretrain(texts, tmp_path / "run", "--loss", "hierarchical") == 0
    loaded = tfnlp_python.load(tmp_path / "run")
    counts = collections.Counter(texts[0].read_text(encoding="utf-8").split())
    steps = np.count_nonzero(loaded.pretrainer.get_layer("softmax").tree, 1)
    known = [(counts[word], n) for word, n in zip(loaded.words, steps, strict=True)]
    assert min(n for count, n in known if count > 50) < max(n for count, n in known if count < 5)
    ids = {"input_word_ids": np.array([[5, 9], [0, 1]], "int32")}
    logs = np.asarray(loaded.encoder(ids)["lm_logits"])
    np.testing.assert_allclose(np.exp(logs).sum(1), 1, rtol=1e-5)
    for word in (0, 7, 199):
        losses = loaded.pretrainer({**ids, "targets": np.array([word, word])})["losses"]
        np.testing.assert_allclose(losses, -logs[:, word], rtol=1e-5)


def test_the_vectors_of_a_word2vec_run(texts, tmp_path, capsys):
    run, toy = tmp_path / "run", ["--dimension", "6", "--window", "2", "--steps", "4"]
    toy += ["--negatives", "2.5", "--batch-size", "16", "--block", "8", "--layout", "lines"]
    files = ["--input", texts[0], "--output", run, "--min-count", "3"]
    assert tfnlp("pretrain", "word2vec", *files, *toy) == 0
    words = (run / "vocab.txt").read_text(encoding="utf-8").split()
    export = ["export", "--model", run, "--output", tmp_path / "vectors.txt"]
    assert tfnlp(*export, "--format", "word2vec") == 0
    vectors = read_word_vectors(tmp_path / "vectors.txt")
    assert vectors.words == words and vectors.vectors.shape == (len(words), 6)
    text = texts[0].read_text(encoding="utf-8").split()
    counts = [int(line) for line in (run / "counts.txt").read_text().split()]
    assert all(0 < n <= text.count(word) for n, word in zip(counts[:5], words[:5], strict=True))
    assert np.abs(vectors.vectors).min(1).max() > 0
    capsys.readouterr()
    assert tfnlp("predict", "word2vec", "--model", run, words[0], "--top", "1") == 0
    nearest = vectors.most_similar([words[0]], count=1)[0]
    assert capsys.readouterr().out == f"{words[0]}\n  {nearest[1]:.3f}  {nearest[0]}\n"
    (run / "counts.txt").write_text("many\n")
    assert tfnlp("predict", "word2vec", "--model", run, words[0]) == 1
    assert "counts.txt was changed" in error(capsys)


def test_a_config_that_was_changed(run, tmp_path, capsys):
    config = json.loads((run / "config.json").read_text())
    (tmp_path / "vocab.txt").write_bytes((run / "vocab.txt").read_bytes())
    (tmp_path / "checkpoints").mkdir()
    for change, words in (
        ({"context": "2"}, "arguments.context='2'"),
        ({"vocab_size": 10**9}, "do they belong together"),
        ({"direct": 1}, "arguments.direct=1"),
        ({"layers": 1}, "'layers'"),
    ):
        changed = {**config, "arguments": {**config["arguments"], **change}}
        (tmp_path / "config.json").write_text(json.dumps(changed))
        assert tfnlp("predict", "word2vec", "--model", tmp_path, "the") == 1
        assert words in error(capsys)


def test_what_asks_for_another_model(run, texts, tmp_path, capsys):
    (tmp_path / "train.tsv").write_text("text\tlabel\ngood\tyes\nbad\tno\n")
    finetune = ["finetune", "classify", "--train", tmp_path / "train.tsv"]
    finetune += ["--dev", tmp_path / "train.tsv", "--output", tmp_path / "x"]
    bert = ["pretrain", "bert", "--input", texts[0], "--output", tmp_path / "x", "--from"]
    for command, words in (
        ([*finetune, "--model", run], "is an NNLM; only an ELECTRA"),
        ([*bert, run], "is an NNLM; only a BERT fills masked words"),
    ):
        assert tfnlp(*command) == 1
        assert words in error(capsys)


# --- What vectors are used for


def test_nearest_words(file, capsys):
    assert tfnlp("predict", "word2vec", "--model", file, "king", "-", "man", "+", "woman") == 0
    first, second = capsys.readouterr().out.split("\n")[:2]
    assert first == "king - man + woman" and second.endswith("  queen")
    assert tfnlp("predict", "word2vec", "--model", file, "king", "apple", "--top", "1") == 0
    cosine = 1 / (2 * 1.01) ** 0.5
    assert capsys.readouterr().out == f"king\n  {cosine:.3f}  man\napple\n  0.070  man\n"
    model = golden("word_vectors_gensim") / "fasttext.bin"
    assert tfnlp("predict", "word2vec", "--model", model, "gardenerish", "--top", "2") == 0
    vectors = read_word_vectors(model)
    unit = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    asked = vectors.subwords.vectors(["gardenerish"])[0]
    scores = unit @ asked / np.linalg.norm(asked)
    best = f"  {scores.max():.3f}  {vectors.words[scores.argmax()]}"
    assert capsys.readouterr().out.split("\n")[1] == best


def test_analogies_and_similarity(file, capsys):
    folder = file.parent
    sets = ["--analogies", folder / "questions.txt", "--similarity", folder / "pairs.txt"]
    assert tfnlp("evaluate", "--model", file, *sets) == 0
    printed = capsys.readouterr().out
    assert "5 words of 4 numbers" in printed
    assert re.search(r"family +66.7%  2 of 3, 0 not asked", printed)
    assert re.search(r"gram +-  0 of 0, 1 not asked", printed)
    assert tfnlp("evaluate", "--model", file, *sets, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    total = {"accuracy": 2 / 3, "correct": 2, "seen": 3, "asked": 4}
    assert found["analogies"]["total"] == pytest.approx(total)
    assert found["analogies"]["gram"]["accuracy"] is None
    # Cosines: 0 for king and queen, 0.70, and 0.07: of the ranks 3 2 1 and 1 3 2.
    rated = found["similarity"][str(folder / "pairs.txt")]
    assert rated == pytest.approx({"spearman": -0.5, "seen": 3, "asked": 4})


def test_evaluate_of_a_run_needs_a_text(run, texts, capsys):
    for arguments, words in (
        ([run], "give --input"),
        ([run, "--input", texts[0], "--stride", "3"], "--stride is for a GPT"),
    ):
        assert tfnlp("evaluate", "--model", *arguments) == 1
        assert words in error(capsys)


def test_exports(run, file, tmp_path, capsys):
    words = read_words(run / "vocab.txt")
    table = checkpoint(run, "best")["model/token_embedding/embeddings"]
    assert table.std(0).min() > 0.01
    for format in ("word2vec", "word2vec-binary", "fasttext", "glove"):
        path = tmp_path / format
        assert tfnlp("export", "--model", run, "--format", format, "--output", path) == 0
        assert capsys.readouterr().out == f"vectors: {path}\n"
        again = read_word_vectors(path)
        assert again.words == words
        np.testing.assert_array_equal(again.vectors, table)
    assert tfnlp("export", "--model", run, "--output", tmp_path / "module") == 0
    module = tf.saved_model.load(str(tmp_path / "module"))
    got = module(tf.constant(["the unheardof", ""])).numpy()
    want = (table[words.index("the")] + table[words.index("<UNK>")]) / 2**0.5
    np.testing.assert_allclose(got, [want, np.zeros(6)], atol=1e-6)
    more = ["--combiner", "mean", "--oov-buckets", "2", "--lowercase", "--strip-punctuation"]
    assert tfnlp("export", "--model", file, "--output", tmp_path / "mean", *more) == 0
    module = tf.saved_model.load(str(tmp_path / "mean"))
    np.testing.assert_allclose(module(tf.constant(["KING, pear!"]))[0], [0.5, 0.5, 0, 0])
    assert module.variables[0].shape == (7, 4)


@pytest.mark.slow
def test_the_script_does_the_same(tmp_path):
    model = golden("word_vectors_gensim") / "fasttext.bin"
    flags = ["--model", model, "--output", tmp_path / "out"]
    flags += ["--combiner", "sum", "--strip_punctuation"]
    done = run_python(ROOT / "export" / "word_vectors.py", *flags)
    assert done.stdout == f"module: {tmp_path / 'out'}\n"
    vectors = read_word_vectors(model)
    want = vectors.vector("garden") + vectors.vector("gardenerish")
    module = tf.saved_model.load(str(tmp_path / "out"))
    np.testing.assert_allclose(module(tf.constant(["garden, gardenerish!"]))[0], want, atol=1e-6)
