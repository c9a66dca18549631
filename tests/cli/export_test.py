"""What `tfnlp export` writes: pairs, whole or not at all, small weights, one module, the card."""

import json
import os
import shutil
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub

import tfnlp as library
from tests.cli.command import error, tfnlp
from tests.cli.toy_tasks import backbone
from tests.support import ROOT, golden, run_python, start_python
from tfnlp.convert import load_bert, load_gpt
from tfnlp.hub.loading.checks import check_record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),  # exports trace much; a busy machine takes its time
    pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated"),
]

BERT = golden("bert_google_tf_generated")
TEXTS = ["the dog", "a cat sat here"]


# --- Pairs: both modules appear, or none


@pytest.mark.parametrize("kind, others", [("bert", []), ("gpt", ["notes.txt"])])
def test_an_error_at_the_second_module_leaves_no_first(kind, others, tmp_path, monkeypatch, capsys):
    saved, really = [], tf.saved_model.save

    def save(module, path, **arguments):
        saved.append(path)
        if len(saved) == 1:
            really(module, path, **arguments)
        else:
            os.makedirs(path)
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", save)
    model, folder = backbone(kind, tmp_path), tmp_path / "pairs"
    folder.mkdir()
    for name in others:
        (folder / "pair").mkdir()
        (folder / "pair" / name).touch()
    assert tfnlp("export", "--model", model, "--output", folder / "pair", "--seq-length", 8) == 1
    assert f"{folder / 'pair'}" in (line := error(capsys)) and "free some space" in line
    assert "partial" not in line and len(saved) == 2
    assert os.listdir(folder / "pair" if others else folder) == others


@pytest.mark.long
@pytest.mark.parametrize("kind, first", [("bert", "encoder"), ("gpt", "model")])
def test_the_same_command_finishes_an_export_that_was_killed(kind, first, tmp_path, capsys):
    (tmp_path / "pairs").mkdir()
    command = ["export", "--model", backbone(kind, tmp_path), "--output", tmp_path / "pairs" / "m"]
    process = start_python("-m", "tfnlp", *command)
    # The first module is whole, below a folder of another name or in its place.
    while not list((tmp_path / "pairs").glob(f"*m/{first}")):
        assert process.poll() is None
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert not (tmp_path / "pairs" / "m").exists()
    assert tfnlp(*command) == 0
    assert os.listdir(tmp_path / "pairs") == ["m"]
    assert sorted(os.listdir(tmp_path / "pairs" / "m")) == sorted([first, "preprocessor"])
    assert tfnlp(*command) == 1
    assert "exists; choose another folder, or --overwrite it" in error(capsys)


# --- Small weights and LiteRT


def lite(path, inputs):
    """What a LiteRT file gives for the inputs."""
    runner = tf.lite.Interpreter(model_path=str(path)).get_signature_runner("serving_default")
    return runner(**{name: x.numpy() for name, x in inputs.items()})


def test_weights_of_8_bits_and_litert_of_a_bert(tmp_path, capsys):
    command = ["export", "--model", BERT, "--output", tmp_path / "m", "--seq-length", "8"]
    assert tfnlp(*command, "--weights", "int8", "--litert", tmp_path / "m" / "x.tflite") == 0
    said = capsys.readouterr().out
    assert "weights as int8: " in said and "litert: " in said
    assert f"encoder: {tmp_path / 'm' / 'encoder'}" in said
    encoder, preprocessor = (
        tf.saved_model.load(str(tmp_path / "m" / x)) for x in ("encoder", "preprocessor")
    )
    inputs = preprocessor(tf.constant(TEXTS))
    loaded = load_bert(BERT)
    want, got = loaded.encoder(inputs), encoder(inputs)
    for outputs in (got, lite(tmp_path / "m" / "x.tflite", inputs)):
        np.testing.assert_allclose(outputs["pooled_output"], want["pooled_output"], atol=0.1)
        np.testing.assert_allclose(outputs["sequence_output"], want["sequence_output"], atol=0.4)
    np.testing.assert_array_equal(got["default"], got["pooled_output"])
    positions = {**inputs, "masked_lm_positions": tf.constant([[1], [2]])}
    np.testing.assert_allclose(
        encoder.mlm(positions)["mlm_logits"],
        loaded.pretrainer(positions)["mlm_logits"],
        atol=0.5,
    )
    assert len(encoder.trainable_variables) == 0


def test_weights_of_16_bits_and_litert_of_a_gpt(tmp_path, capsys):
    folder = backbone("gpt", tmp_path)
    command = ["export", "--model", folder, "--output", tmp_path / "m", "--seq-length", "9"]
    command += ["--litert", tmp_path / "x.tflite"]
    assert tfnlp(*command, "--weights", "bfloat16") == 0
    said = capsys.readouterr().out
    assert f"litert: {tmp_path / 'x.tflite'}" in said and "weights as bfloat16: " in said
    model, preprocessor = (
        tf.saved_model.load(str(tmp_path / "m" / x)) for x in ("model", "preprocessor")
    )
    inputs = preprocessor(tf.constant(TEXTS))
    want = load_gpt(folder).pretrainer(inputs)
    for outputs in (model(inputs), lite(tmp_path / "x.tflite", inputs)):
        for name in ("sequence_output", "lm_logits"):
            np.testing.assert_allclose(outputs[name], want[name], atol=0.05)
    np.testing.assert_array_equal(model(inputs)["default"], model(inputs)["sequence_output"])
    arguments = [tf.constant(x) for x in (["the dog"], 4, 0.0, 0, 1.0, 0)]
    assert model.generate(*arguments)["text"].numpy()[0].startswith(b"the dog")
    (tmp_path / "x.tflite").write_text("mine")
    assert tfnlp(*command[:5], *command[-2:], "--output", tmp_path / "n") == 1
    assert "x.tflite" in error(capsys) and (tmp_path / "x.tflite").read_text() == "mine"


# --- One module of strings to vectors

# Calls a module and takes one step of gradient descent, with TensorFlow alone.
TRAIN = """
import sys, numpy as np, tensorflow as tf, tensorflow_text
module = tf.saved_model.load(sys.argv[1])
texts = tf.constant(["the dog", "a cat sat here"])
found = module(texts)
np.savez(sys.argv[2], **{k: v for k, v in found.items() if k != "encoder_outputs"})
served = module.signatures["serving_default"](sentences=texts)
np.testing.assert_allclose(served["pooled_output"], found["pooled_output"], atol=1e-6)
losses = []
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(module(texts, training=True)["sequence_output"][:, 0] ** 2)
    losses.append(float(loss))
    gradients = tape.gradient(loss, module.trainable_variables)
    for variable, gradient in zip(module.trainable_variables, gradients):
        if gradient is not None:
            variable.assign_sub(0.01 * tf.convert_to_tensor(gradient))
positions = {**module.preprocessor(texts), "masked_lm_positions": tf.constant([[1], [2]])}
print(module.encoder.mlm(positions)["mlm_logits"].shape, losses[1] < losses[0])
"""


def test_strings_to_vectors_in_one_module(tmp_path, capsys):
    place = tmp_path / "bert" / "1"
    command = ["export", "--model", BERT, "--output", place, "--combined", "--seq-length", "8"]
    assert tfnlp(*command) == 0
    assert capsys.readouterr().out == f"module: {place}\n"
    said = run_python(TRAIN, place, tmp_path / "found.npz", without_tfnlp=True).stdout
    assert said.startswith("(2, 1, ") and "True" in said
    loaded = load_bert(BERT)
    pack = library.hub.BertPreprocessorModule(loaded.tokenizer, 8)
    want = loaded.encoder(pack(tf.constant(TEXTS)), training=False)
    with np.load(tmp_path / "found.npz") as found:
        for name in ("pooled_output", "sequence_output", "embedding_output"):
            np.testing.assert_allclose(found[name], want[name], atol=1e-5)
        np.testing.assert_array_equal(found["default"], found["pooled_output"])
    outputs = library.load(str(place))(TEXTS)
    np.testing.assert_allclose(outputs["pooled_output"], want["pooled_output"], atol=1e-5)


# --- The card of a fine-tuned model


@pytest.fixture(scope="module")
def run(made, tmp_path_factory):
    """A run on a base model whose folder states a licence."""
    folder, toy = tmp_path_factory.mktemp("deployed"), made("bert")
    shutil.copytree(BERT, folder / "base")
    (folder / "base" / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# Base\n")
    command = ["finetune", "classify", "--model", folder / "base", "--train", toy.rows]
    command += ["--dev", toy.dev, "--epochs", 1, "--batch-size", 8, "--learning-rate", 3e-4]
    assert tfnlp(*command, "--output", folder / "run") == 0
    return folder / "run"


def test_the_card_of_a_fine_tuned_model(run, tmp_path, capsys):
    place = tmp_path / "sentiment" / "1"
    command = ["export", "--model", run, "--output", place]
    assert tfnlp(*command, "--onnx", tmp_path / "onnx") == 0
    config = json.loads((run / "config.json").read_text())
    results = json.loads((run / "results.json").read_text())
    texts = [(x / "README.md").read_text() for x in (place, tmp_path / "onnx")]
    for text, title in zip(texts, ("sentiment", "onnx"), strict=True):
        assert text.startswith(f"# {title}\n\nA BERT, fine-tuned to classify texts: no, yes.\n")
        assert "- **base model:** base\n" in text
        assert "- **licence:** cc-by-4.0 (the base model's)\n" in text
        crc = f"{config['data']['crc32']:08x}"
        assert f"- **data:** rows.tsv, 40 examples, CRC-32 {crc}\n" in text
        assert f"accuracy {results['metrics']['accuracy']:.4g}, " in text
        assert "(dev.tsv, 16 examples)" in text and "| learning_rate | 0.0003 |" in text
        assert str(run.parent) not in text and str(tmp_path) not in text
    assert 'module = tf.saved_model.load("1")' in texts[0]
    # Nobody minds the file.
    (place / "README.md").write_text(texts[0] + "\nA remark.\n")
    check_record(str(place))
    capsys.readouterr()
    assert tfnlp("inspect", place.parent) == 0
    said = capsys.readouterr().out
    assert "card\n  title " in said and "rows.tsv, 40 examples" in said
    assert tfnlp("inspect", place, "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["card"]["base model"] == "base"
    loaded = tensorflow_hub.load(str(place))
    assert loaded({"text": tf.constant(["so"])})["label"].shape == (1,)
    assert library.load(str(place))(text=["so"])["label"].shape == (1,)


def test_the_card_in_a_folder_of_hugging_face(run, tmp_path):
    from huggingface_hub import ModelCard

    command = ["export", "--model", run, "--output", tmp_path / "m", "--format", "huggingface"]
    assert tfnlp(*command) == 0
    found = ModelCard.load(tmp_path / "m" / "README.md")
    assert found.data.license == "cc-by-4.0" and "BertForSequenceClassification" in found.text
    results = json.loads((run / "results.json").read_text())["metrics"]
    assert {x.metric_type: x.metric_value for x in found.data.eval_results} == results
    assert library.load(str(tmp_path / "m")).labels == ["no", "yes"]
    assert tfnlp(*command, "--overwrite") == 0


def test_combinations_that_make_no_sense(run, tmp_path, capsys):
    place = tmp_path / "m"
    for options, said in {
        "--format huggingface --onnx x": "--onnx is for a SavedModel",
        "--combined": "--combined is for pretrained models",
        "--litert x.onnx": "litert",
    }.items():
        assert tfnlp("export", "--model", run, "--output", place, *options.split()) == 1
        assert said in capsys.readouterr().err
    assert not place.exists()


# --- The scripts in `export/`


def test_the_scripts_do_the_same(made, tmp_path):
    toy, flags = made("bert"), ["--model", BERT, "--output", tmp_path / "pair"]
    run_python(ROOT / "export" / "bert.py", *flags, "--seq_length", "16")
    for name in ("encoder", "preprocessor"):
        assert (tmp_path / "pair" / name / "saved_model.pb").exists()
    run_python(ROOT / "export" / "task.py", "--model", toy.task, "--output", tmp_path / "task")
    ours, theirs = (tf.saved_model.load(str(x)) for x in (toy.module, tmp_path / "task"))
    text = {"text": tf.constant(["the dog"])}
    np.testing.assert_allclose(*(x(text)["probabilities"] for x in (ours, theirs)), atol=1e-6)
