"""From pairs of sentences to a model that translates, is measured, and serves without tfnlp."""

import json
import os

import pytest
from sacrebleu import corpus_bleu

from tests.cli.command import error, tfnlp
from tests.made import TRANSLATORS
from tests.support import run_python

pytestmark = pytest.mark.slow

LEARNT = {"transformer": 80.0, "seq2seq": 5.0}  # BLEU after so few steps; before them, 0


def side(path, name):
    return path.with_suffix(f".{name}")


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("kind", TRANSLATORS)
def test_translates_and_is_measured(kind, made, tmp_path, capsys):
    toy = made(kind)
    names = ["checkpoints", "config.json", "logs", "page.html", "vocab"]
    assert sorted(os.listdir(toy.run)) == names
    source, target = side(toy.valid, "source"), side(toy.valid, "target")
    command = ["evaluate", "--model", toy.run, "--source", source]
    assert tfnlp(*command) == 1
    assert "--target" in error(capsys)
    command += ["--target", target, "--report", tmp_path / "report", "--json"]
    assert tfnlp(*command) == 0
    printed = json.loads(capsys.readouterr().out)
    said = lines(tmp_path / "report/translations.txt")
    assert printed["bleu"] == corpus_bleu(said, [lines(target)]).score >= LEARNT[kind]
    assert sum(row["count"] for row in printed["lengths"]) == 24
    assert (tmp_path / "report/lengths.png").read_bytes()[:4] == b"\x89PNG"

    assert tfnlp("predict", "--model", toy.run, *lines(source)) == 0
    assert capsys.readouterr().out.splitlines() == said


READER = """
import sys
sys.modules.update(dict.fromkeys(("keras", "tensorflow_text")))
import tensorflow as tf
for path in sys.argv[1:3]:
    module = tf.saved_model.load(path)
    sentences = tf.constant(sys.argv[3:])
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


@pytest.mark.long
def test_exports_say_what_predict_says_with_tensorflow_alone(made, capsys):
    texts, predicted = ["the red dog", "", "cat sees the big cat"], []
    modules = [made(kind).exported for kind in TRANSLATORS]
    for kind in TRANSLATORS:
        capsys.readouterr()
        assert tfnlp("predict", "--model", made(kind).run, *texts) == 0
        predicted.append(capsys.readouterr().out.splitlines())
    # A process of its own: operations of tensorflow-text stay once they have been loaded.
    done = run_python(READER, *modules, *texts, without_tfnlp=True, env={})
    assert [line.split("|") for line in done.stdout.splitlines()] == predicted
    assert predicted[0][1] == ""
