"""What `tfnlp export` writes to be deployed: the model card, the combined module, versions."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub

import tfnlp as library
from tests.cli.command import tfnlp
from tests.cli.toy_tasks import finetuned, write_toys
from tests.support import golden, run_python
from tfnlp.convert import load_bert
from tfnlp.hub.loading.checks import check_record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

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
    model = golden("bert_google_tf_generated")
    place = tmp_path / "bert" / "1"
    command = ["export", "--model", model, "--output", place, "--combined", "--seq-length", "8"]
    assert tfnlp(*command) == 0
    assert capsys.readouterr().out == f"module: {place}\n"
    said = run_python(TRAIN, place, tmp_path / "found.npz", without_tfnlp=True).stdout
    assert said.startswith("(2, 1, ") and "True" in said
    loaded = load_bert(model)
    pack = library.hub.BertPreprocessorModule(loaded.tokenizer, 8)
    want = loaded.encoder(pack(tf.constant(["the dog", "a cat sat here"])), training=False)
    with np.load(tmp_path / "found.npz") as found:
        for name in ("pooled_output", "sequence_output", "embedding_output"):
            np.testing.assert_allclose(found[name], want[name], atol=1e-5)
        np.testing.assert_array_equal(found["default"], found["pooled_output"])
    # `tfnlp.load` calls it.
    outputs = library.load(str(place))(["the dog", "a cat sat here"])
    np.testing.assert_allclose(outputs["pooled_output"], want["pooled_output"], atol=1e-5)
    assert tfnlp(*command) == 1
    assert f"{place} exists; choose another folder" in capsys.readouterr().err


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a base model whose folder states a licence."""
    folder = tmp_path_factory.mktemp("deployed")
    shutil.copytree(golden("bert_google_tf_generated"), folder / "base")
    (folder / "base" / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# Base\n")
    files = write_toys(folder)
    finetuned("classify", folder / "base", files, folder / "run")
    return folder


def test_the_card_of_a_fine_tuned_model(run, tmp_path, capsys):
    place = tmp_path / "sentiment" / "1"
    command = ["export", "--model", run / "run", "--output", place]
    assert tfnlp(*command, "--onnx", tmp_path / "onnx") == 0
    config = json.loads((run / "run" / "config.json").read_text())
    results = json.loads((run / "run" / "results.json").read_text())
    texts = [(x / "README.md").read_text() for x in (place, tmp_path / "onnx")]
    for text, title in zip(texts, ("sentiment", "onnx"), strict=True):
        assert text.startswith(f"# {title}\n\nA BERT, fine-tuned to classify texts: no, yes.\n")
        assert "- **base model:** base\n" in text
        assert "- **licence:** cc-by-4.0 (the base model's)\n" in text
        crc = f"{config['data']['crc32']:08x}"
        assert f"- **data:** train.jsonl, 14 examples, CRC-32 {crc}\n" in text
        assert f"accuracy {results['metrics']['accuracy']:.4g}, " in text
        assert "(dev.jsonl, 7 examples)" in text and "| learning_rate | 0.0003 |" in text
        assert str(run) not in text and str(tmp_path) not in text
    assert 'module = tf.saved_model.load("1")' in texts[0] and "example.py" in texts[1]
    # Nobody minds the file.
    check_record(str(place))
    (place / "README.md").write_text(texts[0] + "\nA remark.\n")
    check_record(str(place))
    capsys.readouterr()
    assert tfnlp("inspect", place.parent) == 0
    said = capsys.readouterr().out
    assert "card\n  title " in said and "train.jsonl, 14 examples" in said
    assert tfnlp("inspect", place, "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["card"]["base model"] == "base"
    loaded = tensorflow_hub.load(str(place))
    assert loaded({"text": tf.constant(["so"])})["label"].shape == (1,)
    assert library.load(str(place))(text=["so"])["label"].shape == (1,)
    assert tfnlp(*command, "--overwrite") == 0


def test_the_card_in_a_folder_of_hugging_face(run, tmp_path):
    from huggingface_hub import ModelCard

    command = ["export", "--model", run / "run", "--output", tmp_path / "m"]
    assert tfnlp(*command, "--format", "huggingface") == 0
    found = ModelCard.load(tmp_path / "m" / "README.md")
    assert found.data.license == "cc-by-4.0" and "BertForSequenceClassification" in found.text
    results = json.loads((run / "run" / "results.json").read_text())["metrics"]
    assert {x.metric_type: x.metric_value for x in found.data.eval_results} == results
    again = library.load(str(tmp_path / "m"))
    assert again.labels == ["no", "yes"]
    assert tfnlp(*command, "--format", "huggingface", "--overwrite") == 0


def test_combinations_that_make_no_sense(run, tmp_path, capsys):
    place = tmp_path / "m"
    for options, said in {
        "--format huggingface --onnx x": "--onnx is for a SavedModel, not for --format huggingface",
        "--combined": "--combined is for pretrained models; ",
        "--litert x.onnx": "litert=",
    }.items():
        assert tfnlp("export", "--model", run / "run", "--output", place, *options.split()) == 1
        assert said in capsys.readouterr().err
    assert not place.exists()
