"""BERT and the encoders after it, from text to what others read without tfnlp."""

import json

import numpy as np
import pytest

import tfnlp as library
from tests.cli.command import checkpoint, error, tfnlp, weights
from tests.support import golden, run_python
from tfnlp.models.distilbert import teacher_layers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TEXTS = ["the garden was", "a robin  sang"]
FAMILIES = [
    "roberta",
    "electra",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("bert", "distilbert", "albert")),
]


READER = """
import sys
import numpy as np, tensorflow as tf, tensorflow_text
output, folder, *texts = sys.argv[1:]
encoder, preprocessor = (tf.saved_model.load(f"{folder}/{x}") for x in ("encoder", "preprocessor"))
inputs = preprocessor(tf.constant(texts))
found = {"mask": inputs["input_mask"], **encoder(inputs)}
found["layers"] = len(found.pop("encoder_outputs"))
if hasattr(encoder, "discriminator"):
    found.update(encoder.discriminator(inputs, training=False))
parts = [preprocessor.tokenize(tf.constant([text])) for text in texts]
found["pair"] = preprocessor.bert_pack_inputs(parts, tf.constant(24))["input_word_ids"]
np.savez(output, **found)
"""


@pytest.mark.parametrize("family", FAMILIES)
def test_exported_modules_without_tfnlp(family, made, tmp_path):
    toy, served = made(family), tmp_path / "served.npz"
    loaded = library.load(toy.run)
    run_python(READER, served, toy.exported, *TEXTS, without_tfnlp=True)
    with np.load(served) as file:
        served = dict(file)
    assert served["layers"] == (1 if family == "distilbert" else 2)
    real = served["mask"].astype(bool)
    assert real.shape == (2, 48)
    want = np.asarray(loaded(TEXTS)["sequence_output"])[real]
    np.testing.assert_allclose(served["sequence_output"][real], want, atol=1e-5)
    assert ("pooled_output" in served) == (family in ("bert", "albert"))
    if family == "electra":
        assert served["discriminator_logits"].shape == (2, 48)
    if family == "roberta":
        first, second = loaded.tokenizer.tokenize(TEXTS).to_list()
        want = [0, *first, 2, 2, *second, 2]
        assert served["pair"][0].tolist() == want + [1] * (24 - len(want))


@pytest.mark.long
@pytest.mark.parametrize("family, vocabulary", [("albert", "spiece.model"), ("roberta", "vocab")])
def test_examples_give_the_batches_of_the_text(family, vocabulary, made, tmp_path):
    toy, folder, runs = made(family), tmp_path / "examples", []
    source = ["--input", toy.train, "--layout", "lines", "--vocab", toy.run / vocabulary]
    source += ["--seq-length", 16]
    assert tfnlp("examples", family, *source, "--output", folder, "--epochs", 1) == 0
    sizes = ["--num-layers", 1, "--hidden-size", 16, "--num-heads", 2, "--max-positions", 48]
    for name, text in (("text", source), ("shards", ["--examples", folder])):
        runs.append(tmp_path / name)
        more = ["pretrain", family, *text, "--output", runs[-1], "--batch-size", 8, *sizes]
        assert tfnlp(*more, "--steps", 3) == 0
    for a, b in zip(*map(weights, runs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_going_on_with_somebodys_checkpoint(made, tmp_path):
    # An update of a size that changes nothing in float32.
    start = golden("roberta_huggingface")
    command = ["pretrain", "roberta", "--input", made("roberta").train, "--from", start]
    command += ["--output", tmp_path / "run", "--seq-length", 16, "--batch-size", 8, "--steps", 1]
    assert tfnlp(*command, "--learning-rate", "1e-30") == 0
    found = checkpoint(tmp_path / "run", "best")
    for weight in library.load(start).pretrainer.weights:
        np.testing.assert_array_equal(found[f"model/{weight.path}"], weight.numpy())
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["optimizer"]["beta_2"], config["optimizer"]["epsilon"]) == (0.98, 1e-6)


def test_an_electra_marks_what_was_replaced(made, capsys):
    toy = made("electra")
    model = library.load(toy.run)
    found = model.evaluate(str(toy.valid), seq_length=16, batches=2)
    assert {"masked_lm_accuracy", "discriminator_accuracy", "replaced"} <= set(found)
    ((first, p), *rest) = model.predict(["the dog ran"])[0]
    assert first == "the" and 0 < p < 1 and len(rest) >= 2
    assert tfnlp("predict", "--model", toy.run, "--threshold", 0, "the dog ran") == 0
    marked = " ".join(f"[{token} {q:.2f}]" for token, q in [(first, p), *rest])
    assert capsys.readouterr().out == f"{marked}\n"


def test_a_student_has_half_the_layers_and_the_teachers_vocabulary(made):
    student, teacher = made("distilbert").run, made("bert").run
    config, theirs = (json.loads((x / "config.json").read_text()) for x in (student, teacher))
    assert config["arguments"]["num_layers"] == 1
    same = ("vocab_size", "hidden_size", "num_heads", "intermediate_size", "max_positions")
    assert all(config["arguments"][name] == theirs["arguments"][name] for name in same)
    assert (student / "vocab.txt").read_bytes() == (teacher / "vocab.txt").read_bytes()


def test_a_student_starts_from_the_teachers_layers(made, tmp_path):
    # An update of a size that changes nothing in float32.
    teacher, changes = made("bert").run, dict(steps=1, learning_rate=1e-30)
    assert tfnlp(*made("distilbert").command(tmp_path / "run", **changes)) == 0
    found, theirs = checkpoint(tmp_path / "run"), checkpoint(teacher, "best")
    name = "model/layer_{}/intermediate/kernel"
    (other,) = teacher_layers(1, 2)
    np.testing.assert_array_equal(found[name.format(0)], theirs[name.format(other)])
    command = made("distilbert").command(tmp_path / "new", **changes, new_weights=True)
    assert tfnlp(*command) == 0
    new = checkpoint(tmp_path / "new")[name.format(0)]
    assert np.abs(new - theirs[name.format(other)]).max() > 1e-3


def test_a_student_that_goes_on_has_the_same_teacher(made, tmp_path, capsys):
    toy, other = made("distilbert"), tmp_path / "other"
    changes = dict(vocab=toy.run / "vocab.txt", vocab_size=None, steps=1, seed=2)
    command = made("bert").command(other, **changes)
    assert tfnlp(*command) == 0
    assert tfnlp(*toy.command(toy.copied(tmp_path), teacher=other)) == 1
    assert "teacher_crc32 was" in error(capsys)
