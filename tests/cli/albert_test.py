"""An ALBERT from text to fine-tuned modules."""

import json
import os
import signal
import time

import numpy as np
import pytest

from tests.cli.command import checkpoint, error, tfnlp, weights
from tests.cli.toy_tasks import finetuned, write_toys
from tests.support import run_python, start_python
from tfnlp import books

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TOY = ["--num-layers", "3", "--hidden-size", "16", "--num-heads", "2", "--max-positions", "48"]
TRAINING = ["--seq-length", "16", "--batch-size", "8", "--steps-per-call", "1"]
MORE = ["--vocab-size", "300", "--steps", "6", "--checkpoint-every", "1", "--whole-word"]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_text(books.path().read_text(encoding="utf-8")[:30_000])
    return path


def command(book, output, *more):
    return ["pretrain", "albert", "--input", book, "--output", output, *TRAINING, *TOY, *more]


@pytest.fixture(scope="module")
def run(book, tmp_path_factory):
    output = tmp_path_factory.mktemp("albert") / "run"
    assert tfnlp(*command(book, output, *MORE)) == 0
    return output


def test_a_run_has_one_block_and_a_narrow_table(run):
    stored = checkpoint(run)
    assert stored["model/token_embedding/embeddings"].shape == (300, 64)
    found = [name.split("/") for name in stored if name.startswith("model/")]
    blocks = {name[1] for name in found if "intermediate" in name}
    assert blocks == {"shared_layer"}
    assert "model/sentence_order_head/dense/kernel" in stored
    config = json.loads((run / "config.json").read_text())
    assert config["text"]["lowercase"] is True and config["arguments"]["dropout"] == 0


def test_a_killed_run_ends_bit_identical(book, run, tmp_path):
    killed = tmp_path / "run"
    process = start_python("-m", "tfnlp", *command(book, killed, *MORE))
    while process.poll() is None:
        if (killed / "checkpoints").exists() and list((killed / "checkpoints").glob("step-*")):
            process.send_signal(signal.SIGKILL)
            process.wait()
        time.sleep(0.002)
    assert process.returncode == -signal.SIGKILL
    assert tfnlp(*command(book, killed, *MORE)) == 0
    for a, b in zip(weights(run), weights(killed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_evaluate_predict_and_hugging_face(book, run, tmp_path, capsys):
    found, folder = [], tmp_path / "huggingface"
    export = ["export", "--model", run, "--output", folder, "--format", "huggingface"]
    assert tfnlp(*export) == 0
    names = {"config.json", "model.safetensors", "spiece.model", "tokenizer.json"}
    assert names <= set(os.listdir(folder))
    for model in (run, folder):
        capsys.readouterr()
        evaluate = ["evaluate", "--model", model, "--input", book, "--seq-length", 16]
        assert tfnlp(*evaluate, "--batches", 4, "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
        assert tfnlp("predict", "albert", "--model", model, "the [MASK] was") == 0
        assert tfnlp("predict", "albert", "--model", model, "it was", "--pair", "he is") == 0
        found[-1]["said"] = capsys.readouterr().out
    assert found[0] == found[1]
    assert set(found[0]) >= {"masked_lm_accuracy", "sentence_order_accuracy"}
    assert tfnlp("predict", "albert", "--model", run, "the") == 1
    assert "has no [MASK] to fill; write one" in error(capsys)


READER = """
import sys
sys.modules["tfnlp"] = None
import numpy as np, tensorflow as tf, tensorflow_text
pair = [tf.saved_model.load(f"{sys.argv[1]}/{name}") for name in ("encoder", "preprocessor")]
outputs = pair[0](pair[1](tf.constant(["the garden was", "a robin"])))
assert outputs["pooled_output"].shape == (2, 16) and len(outputs["encoder_outputs"]) == 3
np.save(sys.argv[2], outputs["pooled_output"].numpy())
filled = tf.saved_model.load(sys.argv[3])(tf.constant(["mary was a [MASK] girl ."]))
assert filled["tokens"].shape == (1, 1, 5), filled
"""


def test_exported_modules_and_fine_tuning(run, tmp_path):
    import tfnlp as library

    pair, fill = tmp_path / "pair", tmp_path / "fill"
    assert tfnlp("export", "--model", run, "--output", pair, "--seq-length", 12) == 0
    assert tfnlp("export", "--model", run, "--output", fill, "--fill") == 0
    run_python(READER, pair, tmp_path / "served.npy", fill, without_tfnlp=True)
    vectors = library.load(run)(["the garden was", "a robin"])["pooled_output"]
    np.testing.assert_allclose(np.load(tmp_path / "served.npy"), np.asarray(vectors), atol=1e-5)
    loaded = library.load(pair)
    assert loaded.family.name == "albert" and loaded.tokenizer.vocab_size == 300

    files = write_toys(tmp_path)
    for name, model in (("classify", run), ("tag", pair)):
        task = tmp_path / name
        finetuned(name, model, files, task)
        assert tfnlp("export", "--model", task, "--output", tmp_path / f"{name}_module") == 0
        assert os.listdir(tmp_path / f"{name}_module")
        assert library.load(task).predict([files_text(name)])


def files_text(name):
    return "the dog ran" if name == "classify" else ["the", "dog", "ran"]


def test_examples_give_the_batches_of_the_text(book, run, tmp_path):
    common = ["--seq-length", 16, "--vocab", run / "spiece.model", "--input", book]
    folder, runs = tmp_path / "examples", []
    assert tfnlp("examples", "albert", *common, "--output", folder, "--epochs", 2) == 0
    settings = json.loads((folder / "manifest.json").read_text())["settings"]
    assert (settings["shape"], settings["second"]) == ("pairs", "swapped")
    for name, source in (("text", common), ("shards", ["--examples", folder])):
        runs.append(tmp_path / name)
        more = ["pretrain", "albert", *source, "--output", runs[-1], *TRAINING[2:], *TOY]
        assert tfnlp(*more, "--steps", 3) == 0
    for a, b in zip(*map(weights, runs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_going_on_from_a_run(book, run, tmp_path):
    more = ["--from", run, "--steps", 1, "--learning-rate", "1e-30"]
    base = ["pretrain", "albert", "--input", book, "--output", tmp_path / "more", *TRAINING]
    assert tfnlp(*base, *more) == 0
    for a, b in zip(weights(tmp_path / "more"), weights(run), strict=True):
        np.testing.assert_array_equal(a, b)
