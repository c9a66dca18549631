"""BERT and the encoders after it, from text to what others read without tfnlp."""

import json
import os

import numpy as np
import pytest

import tfnlp as library
from tests.cli.command import RUN, checkpoint, error, tfnlp, weights
from tests.cli.toy_tasks import assert_served, read_without_tfnlp
from tests.support import golden, run_python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FAMILIES = ["bert", "roberta", "distilbert", "albert", "electra"]
TEXTS = ["the garden was", "a robin  sang"]


def test_what_a_run_keeps(made):
    kept = {name: checkpoint(made(name).run) for name in FAMILIES}
    names = {
        "bert": RUN,
        "roberta": [*RUN[:-1], "vocab"],
        "albert": [*RUN[:-1], "spiece.model"],
    }
    for family, files in names.items():
        assert sorted(os.listdir(made(family).run)) == sorted(files)
    config = json.loads((made("roberta").run / "config.json").read_text())
    assert config["text"] == {}
    assert (config["optimizer"]["beta_2"], config["optimizer"]["epsilon"]) == (0.98, 1e-6)
    assert kept["bert"]["model/next_sentence_head/dense/kernel"].shape == (16, 2)
    assert kept["albert"]["model/token_embedding/embeddings"].shape == (300, 64)
    blocks = {name.split("/")[-3] for name in kept["albert"] if "/intermediate/" in name}
    assert blocks == {"shared_layer"}
    assert kept["roberta"]["model/position_embedding/embeddings"].shape == (50, 16)
    for family in ("roberta", "distilbert"):
        assert not any("pooler" in name or "next_sentence" in name for name in kept[family])
    assert not any("segment" in name or "layer_1" in name for name in kept["distilbert"])
    assert kept["electra"]["model/generator_layer_0/output_norm/gamma"].shape == (8,)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_and_its_files_of_hugging_face_say_the_same(family, made, tmp_path, capsys):
    toy, folder, found = made(family), tmp_path / "huggingface", []
    export = ["export", "--model", toy.run, "--output", folder, "--format", "huggingface"]
    assert tfnlp(*export) == 0
    mask = {"roberta": "<mask>", "electra": "blue"}.get(family, "[MASK]")
    for model in (toy.run, folder):
        capsys.readouterr()
        assert tfnlp("predict", family, "--model", model, f"the {mask} was") == 0
        said = capsys.readouterr().out
        if family != "electra":  # its files hold the discriminator alone
            evaluate = ["evaluate", "--model", model, "--input", toy.valid, "--seq-length", 16]
            assert tfnlp(*evaluate, "--batches", 3, "--json") == 0
        if family == "albert":
            assert tfnlp("predict", family, "--model", model, "it was", "--pair", "he is") == 0
        found.append((said, capsys.readouterr().out))
    assert found[0] == found[1]
    if family != "electra":
        measures = json.loads(found[0][1].split("\n")[0])
        assert {"masked_lm_loss", "masked_lm_accuracy"} <= set(measures)
        assert tfnlp("predict", family, "--model", toy.run, "the") == 1
        assert mask in error(capsys)


# Calls the pair of each family and, where there is one, the module that fills masks.
READER = """
import sys
import numpy as np, tensorflow as tf, tensorflow_text
texts, found = tf.constant(["the garden was", "a robin  sang"]), {}
for name, folder in (pair.split("=") for pair in sys.argv[2:]):
    encoder, preprocessor = (
        tf.saved_model.load(f"{folder}/{part}") for part in ("encoder", "preprocessor")
    )
    inputs = preprocessor(texts)
    outputs = encoder(inputs)
    found[f"{name}/layers"] = len(outputs["encoder_outputs"])
    found[f"{name}/mask"] = inputs["input_mask"]
    found[f"{name}/sequence_output"] = outputs["sequence_output"]
    if "pooled_output" in outputs:
        found[f"{name}/pooled_output"] = outputs["pooled_output"]
    if name == "electra":
        found["logits"] = encoder.discriminator(inputs, training=False)["discriminator_logits"]
    if name == "roberta":
        parts = [preprocessor.tokenize(tf.constant([text])) for text in ("a robin", "sang")]
        both = preprocessor.bert_pack_inputs(parts, tf.constant(20))
        found["pair"] = both["input_word_ids"]
np.savez(sys.argv[1], **found)
"""


def test_exported_pairs_without_tfnlp(made, tmp_path):
    pairs = [f"{name}={made(name).exported}" for name in FAMILIES]
    run_python(READER, tmp_path / "served.npz", *pairs, without_tfnlp=True)
    with np.load(tmp_path / "served.npz") as file:
        served = dict(file)
    for name in FAMILIES:
        vectors = library.load(made(name).run)(TEXTS)
        assert served[f"{name}/layers"] == (1 if name == "distilbert" else 2)
        real = served[f"{name}/mask"].astype(bool)
        assert served[f"{name}/mask"].shape == (2, 48)
        want = np.asarray(vectors["sequence_output"])[real]
        np.testing.assert_allclose(served[f"{name}/sequence_output"][real], want, atol=1e-5)
        assert (f"{name}/pooled_output" in served) == (name in ("bert", "albert"))
    assert served["logits"].shape == (2, 48)
    tokenizer = library.load(made("roberta").run).tokenizer
    first, second = tokenizer.tokenize(["a robin", "sang"]).to_list()
    want = [0, *first, 2, 2, *second, 2]
    assert served["pair"][0].tolist() == want + [1] * (20 - len(want))


def test_a_task_of_each_family_is_served(made, tmp_path):
    asked, predictions = {}, {}
    for name in FAMILIES:
        toy = made(name)
        texts = [line.split("\t")[0] for line in toy.dev.read_text().splitlines()[1:]]
        asked[name] = toy.module, {"text": texts}
        lines = (toy.task / "dev_predictions.jsonl").read_text().splitlines()
        predictions[name] = [json.loads(line) for line in lines]
        assert ("model/hidden/kernel" in checkpoint(toy.task, "best")) == (
            name in ("roberta", "distilbert", "electra")
        )
    said = read_without_tfnlp(tmp_path, asked)
    for name in FAMILIES:
        assert_served("classify", said[name], predictions[name])
        assert said[name]["names"] == said[name]["names_asset"] == ["no", "yes"]


@pytest.mark.parametrize("family", ["roberta", "albert"])
def test_the_module_that_fills_masks(family, made, tmp_path):
    toy, mask = made(family), {"roberta": "<mask>"}.get(family, "[MASK]")
    export = ["export", "--model", toy.run, "--output", tmp_path / "fill", "--fill", "--top", 3]
    assert tfnlp(*export) == 0
    script = """
import json, sys, tensorflow as tf, tensorflow_text
found = tf.saved_model.load(sys.argv[1])(tf.constant(sys.argv[2:]))
tokens = [token.decode("utf-8", "replace") for token in found["tokens"].numpy()[0, 0]]
print(json.dumps([tokens, found["probabilities"].numpy()[0, 0].tolist()]))
"""
    texts = [f"the {mask} was", "none"]
    done = run_python(script, tmp_path / "fill", *texts, without_tfnlp=True)
    tokens, probabilities = json.loads(done.stdout)
    (guesses,) = library.load(toy.run).predict(texts[0], top=3)[0]
    assert tokens == [token for token, _ in guesses]
    np.testing.assert_allclose(probabilities, [p for _, p in guesses], rtol=1e-4)


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


@pytest.mark.parametrize("family", ["albert", "roberta"])
def test_going_on_with_somebodys_checkpoint(family, made, tmp_path):
    # An update of a size that changes nothing in float32.
    start = golden(f"{family}_huggingface")
    command = ["pretrain", family, "--input", made(family).train, "--output", tmp_path / "run"]
    command += ["--seq-length", 16, "--batch-size", 8, "--from", start, "--steps", 1]
    assert tfnlp(*command, "--learning-rate", "1e-30") == 0
    found = checkpoint(tmp_path / "run", "best")
    for weight in library.load(start).pretrainer.weights:
        np.testing.assert_array_equal(found[f"model/{weight.path}"], weight.numpy())


def test_an_electra_marks_what_was_replaced(made, capsys):
    toy = made("electra")
    model = library.load(toy.run)
    found = model.evaluate(str(toy.valid), seq_length=16, batches=2)
    assert {"masked_lm_accuracy", "discriminator_accuracy", "replaced"} <= set(found)
    ((first, p), *rest) = model.predict(["the dog ran"])[0]
    assert first == "the" and 0 < p < 1 and len(rest) >= 2
    assert tfnlp("predict", "electra", "--model", toy.run, "--threshold", 0, "the dog ran") == 0
    marked = " ".join(f"[{token} {q:.2f}]" for token, q in [(first, p), *rest])
    assert capsys.readouterr().out == f"{marked}\n"
