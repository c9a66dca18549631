"""From pairs of sentences to a model that translates, is measured, and serves without tfnlp."""

import json
import os
import shutil

import numpy as np
import pytest
from sacrebleu import corpus_bleu

from tests.cli.command import error, tfnlp, weights
from tests.support import run_python

pytestmark = pytest.mark.slow

# A language with another word for each word, and another order: the last one comes first.
WORDS = {"red": "rot", "dog": "Hund", "sees": "sieht", "big": "groß", "cat": "Katze", "the": "der"}
TRAINING = ["--vocab-size", 300, "--batch-size", 32, "--steps-per-call", 10]
TRAINING += ["--evaluate-every", 100]
KINDS = {
    "transformer": ["--num-layers", 1, "--hidden-size", 32, "--num-heads", 2, "--dropout", 0]
    + ["--learning-rate", "5e-3", "--steps", 200],
    "seq2seq": ["--hidden-size", 32, "--dropout", 0, "--learning-rate", "1e-2", "--steps", 200],
}
LEARNT = {"transformer": 80.0, "seq2seq": 5.0}  # BLEU after so few steps; before them, 0


def sentences(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        words = rng.choice(list(WORDS), rng.integers(2, 6)).tolist()
        yield " ".join(words), " ".join(WORDS[w] for w in [words[-1], *words[:-1]])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Options that name the texts to train on, and those held out."""
    folder, options = tmp_path_factory.mktemp("text"), {}
    for part, count in (("train", 600), ("valid", 24)):
        pairs = list(sentences(count, seed=count))
        for side, name in enumerate(("source", "target")):
            path = folder / f"{part}.{name}"
            path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
            options[part, name] = path
    return options


def pretrain(kind, files, output, *more):
    command = ["pretrain", kind, "--source", files["train", "source"], "--target"]
    command += [files["train", "target"], "--valid-source", files["valid", "source"]]
    command += ["--valid-target", files["valid", "target"], "--output", output]
    return tfnlp(*command, *TRAINING, *KINDS[kind], *more)


@pytest.fixture(scope="module", params=KINDS)
def run(request, files, tmp_path_factory):
    """A run of each kind that has learnt the language."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    assert pretrain(request.param, files, folder) == 0
    return folder


def test_translates_and_is_measured(run, files, tmp_path, capsys):
    assert sorted(os.listdir(run)) == ["checkpoints", "config.json", "curve.png", "logs", "vocab"]
    command = ["evaluate", "--model", run, "--source", files["valid", "source"], "--target"]
    command += [files["valid", "target"], "--report", tmp_path / "report", "--json"]
    assert tfnlp(*command) == 0
    printed = json.loads(capsys.readouterr().out)
    said = (tmp_path / "report/translations.txt").read_text(encoding="utf-8").splitlines()
    wanted = files["valid", "target"].read_text(encoding="utf-8").splitlines()
    kind = json.loads((run / "config.json").read_text())["model"]
    assert printed["bleu"] == corpus_bleu(said, [wanted]).score >= LEARNT[kind]
    assert sum(row["count"] for row in printed["lengths"]) == 24
    assert (tmp_path / "report/lengths.png").read_bytes()[:4] == b"\x89PNG"

    picture = tmp_path / "attention.png"
    sources = files["valid", "source"].read_text(encoding="utf-8").splitlines()
    assert tfnlp("predict", "translation", "--model", run, *sources, "--attention", picture) == 0
    assert capsys.readouterr().out.splitlines() == said
    assert picture.read_bytes()[:4] == b"\x89PNG"


READER = """
import sys
sys.modules.update(dict.fromkeys(("tfnlp", "keras", "tensorflow_text")))
import numpy as np, tensorflow as tf
module = tf.saved_model.load(sys.argv[1])
sentences = tf.constant(sys.argv[2:])
served = module.signatures["serving_default"](sentences=sentences)
print("|".join(t.decode() for t in served["translation"].numpy()))
assert module.translate(sentences)["score"].shape == [len(sentences)]
ids = tf.ones([2, 3], tf.int32)
inputs = {"input_word_ids": ids, "input_mask": ids, "target_word_ids": ids}
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(module(inputs, training=True)["lm_logits"] ** 2)
gradients = tape.gradient(loss, module.trainable_variables)
assert len(gradients) > 5 and all(g is not None for g in gradients)
"""


def test_export_says_what_predict_says_without_tfnlp(run, tmp_path, capsys):
    module, texts = tmp_path / "module", ["the red dog", "", "cat sees the big cat"]
    assert tfnlp("export", "--model", run, "--output", module, "--beams", 2) == 0
    capsys.readouterr()
    assert tfnlp("predict", "translation", "--model", run, "--beams", 2, *texts) == 0
    predicted = capsys.readouterr().out.splitlines()
    done = run_python(READER, module, *texts, without_tfnlp=True)
    assert done.stdout.strip().split("|") == predicted
    assert predicted[1] == ""


def test_a_run_cut_short_ends_where_it_would_have(files, tmp_path):
    more = ["--steps", 6, "--evaluate-every", 3, "--dropout", 0.2]
    assert pretrain("transformer", files, tmp_path / "whole", *more) == 0
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for path in (tmp_path / "cut/checkpoints").iterdir():
        if int(path.name.split("-")[1]) > 3:
            shutil.rmtree(path)
    assert pretrain("transformer", files, tmp_path / "cut", *more) == 0
    for a, b in zip(weights(tmp_path / "whole"), weights(tmp_path / "cut"), strict=True):
        np.testing.assert_array_equal(a, b)


def test_evaluate_wants_two_files(run, files, capsys):
    assert tfnlp("evaluate", "--model", run, "--source", files["valid", "source"]) == 1
    assert "give --target to measure it on" in error(capsys)
