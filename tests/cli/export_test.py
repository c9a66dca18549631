"""What `tfnlp export` writes: pairs, whole or not at all, small weights, one module, the card."""

import json
import os
import shutil
import time

import pytest
import tensorflow as tf
import tensorflow_hub

import tfnlp as library
from tests.cli.command import error, tfnlp
from tests.cli.toy_tasks import backbone
from tests.support import golden, start_python
from tfnlp.hub.loading.checks import check_record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),  # exports trace much; a busy machine takes its time
    pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated"),
]

BERT = golden("bert_google_tf_generated")


# --- Pairs: both modules appear, or none


def test_an_error_at_the_second_module_leaves_no_first(tmp_path, monkeypatch, capsys):
    saved, really = [], tf.saved_model.save

    def save(module, path, **arguments):
        saved.append(path)
        if len(saved) == 1:
            really(module, path, **arguments)
        else:
            os.makedirs(path)
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", save)
    pair = tmp_path / "pair"
    pair.mkdir()
    (pair / "notes.txt").touch()
    model = backbone("gpt", tmp_path)
    assert tfnlp("export", "--model", model, "--output", pair, "--seq-length", 8) == 1
    assert str(pair) in (line := error(capsys)) and "free some space" in line
    assert "partial" not in line and len(saved) == 2
    assert os.listdir(pair) == ["notes.txt"]


@pytest.mark.long
@pytest.mark.parametrize("kind, first", [("bert", "encoder"), ("gpt", "model")])
def test_the_same_command_finishes_an_export_that_was_killed(kind, first, tmp_path):
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
    # Nobody minds the file.
    (place / "README.md").write_text(texts[0] + "\nA remark.\n")
    check_record(str(place))
    capsys.readouterr()
    assert tfnlp("inspect", place, "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["card"]["base model"] == "base"
    loaded = tensorflow_hub.load(str(place))
    assert loaded({"text": tf.constant(["so"])})["label"].shape == (1,)
    assert library.load(str(place))(text=["so"])["label"].shape == (1,)
