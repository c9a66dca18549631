"""A RoBERTa from a text to its fine-tuned modules."""

import json
import signal
import time

import numpy as np
import pytest

import tfnlp as library
from tests.cli.command import checkpoint, error, tfnlp, weights
from tests.cli.toy_tasks import finetuned, write_toys
from tests.support import golden, run_python, start_python
from tfnlp import books

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TOY = ["--num-layers", "1", "--hidden-size", "16", "--num-heads", "2", "--max-positions", "48"]
TRAINING = ["--batch-size", "8", "--steps-per-call", "1", "--checkpoint-every", "1"]
TEXTS = ["the garden was", "a robin  sang"]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_text(books.path().read_text(encoding="utf-8")[:30_000])
    return path


def pretrain(book, output, *more):
    source = ["--input", book, "--vocab-size", 320, "--seq-length", 16]
    return ["pretrain", "roberta", *source, "--output", output, *TRAINING, *TOY, *more]


@pytest.fixture(scope="module")
def run(book, tmp_path_factory):
    run = tmp_path_factory.mktemp("roberta") / "run"
    assert tfnlp(*pretrain(book, run, "--steps", 6)) == 0
    return run


@pytest.fixture(scope="module")
def pair(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "pair"
    assert tfnlp("export", "--model", run, "--output", path, "--seq-length", 12) == 0
    return path


def test_the_run_keeps_its_recipe(run):
    config = json.loads((run / "config.json").read_text())
    assert config["model"] == "roberta" and config["text"] == {}
    assert config["optimizer"]["beta_2"] == 0.98 and config["optimizer"]["epsilon"] == 1e-6
    found = checkpoint(run)
    assert found["model/position_embedding/embeddings"].shape == (50, 16)
    assert not any("pooler" in name or "next_sentence" in name for name in found)


def test_a_killed_run_ends_bit_identical(book, run, tmp_path):
    again = tmp_path / "run"
    process = start_python("-m", "tfnlp", *pretrain(book, again, "--steps", 6))
    while process.poll() is None:
        if (again / "checkpoints").exists() and list((again / "checkpoints").glob("step-*")):
            process.send_signal(signal.SIGKILL)
            process.wait()
        time.sleep(0.002)
    assert process.returncode == -signal.SIGKILL
    assert tfnlp(*pretrain(book, again, "--steps", 6)) == 0
    for a, b in zip(weights(run), weights(again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_examples_give_the_batches_of_the_text(book, run, tmp_path):
    folder, vocab = tmp_path / "examples", ["--vocab", run / "vocab"]
    command = ["examples", "roberta", "--input", book, "--output", folder, *vocab]
    assert tfnlp(*command, "--seq-length", 16, "--epochs", 1) == 0
    other = tmp_path / "run"
    command = ["pretrain", "roberta", "--examples", folder, "--output", other, *TRAINING, *TOY]
    assert tfnlp(*command, "--steps", 6) == 0
    for a, b in zip(weights(run), weights(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_evaluate_predict_and_hugging_face(book, run, tmp_path, capsys):
    found, folder = [], tmp_path / "huggingface"
    export = ["export", "--model", run, "--output", folder]
    assert tfnlp(*export, "--format", "huggingface") == 0
    capsys.readouterr()
    for model in (run, folder):
        command = ["evaluate", "--model", model, "--input", book, "--seq-length", 16]
        assert tfnlp(*command, "--batches", 4, "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
        assert tfnlp("predict", "roberta", "--model", model, "the <mask> was") == 0
        found[-1]["said"] = capsys.readouterr().out
    assert found[0] == found[1] and set(found[0]) >= {"masked_lm_loss", "masked_lm_accuracy"}
    assert tfnlp("predict", "roberta", "--model", run, "the [MASK] was") == 1
    assert "has no <mask> to fill; write one" in error(capsys)


READER = """
import sys
sys.modules["tfnlp"] = None
import numpy as np, tensorflow as tf
folder = sys.argv[1]
encoder, preprocessor, fill = (
    tf.saved_model.load(f"{folder}/{name}") for name in ("encoder", "preprocessor", "fill")
)
inputs = preprocessor(tf.constant(["the garden was", "a robin  sang"]))
outputs = encoder(inputs)
assert "pooled_output" not in outputs
parts = [preprocessor.tokenize(tf.constant([text])) for text in ("a robin", "sang")]
both = preprocessor.bert_pack_inputs(parts, tf.constant(20))
special = preprocessor.tokenize.get_special_tokens_dict()
found = fill(tf.constant(["the <mask> was", "none"]))
np.savez(
    sys.argv[2], mask=inputs["input_mask"], sequence_output=outputs["sequence_output"],
    pair=both["input_word_ids"], types=both["input_type_ids"],
    special=[special[f"{name}_id"] for name in ("start_of_sequence", "end_of_segment", "padding")],
    tokens=found["tokens"].numpy().astype("S20"), probabilities=found["probabilities"],
)
"""


def test_exports_without_tfnlp(run, pair, tmp_path):
    fill = tmp_path / "fill"
    assert tfnlp("export", "--model", run, "--output", fill, "--fill", "--top", 3) == 0
    for name in ("encoder", "preprocessor"):
        (tmp_path / name).symlink_to(pair / name)
    run_python(READER, tmp_path, tmp_path / "served.npz", without_tfnlp=True)
    served, loaded = np.load(tmp_path / "served.npz"), library.load(run)
    vectors = np.asarray(loaded(TEXTS)["sequence_output"])
    for row, mask in enumerate(served["mask"].astype(bool)):
        want = vectors[row, : mask.sum()]
        np.testing.assert_allclose(served["sequence_output"][row, mask], want, atol=1e-5)
    tokenizer = loaded.tokenizer
    first, second = tokenizer.tokenize(["a robin", "sang"]).to_list()
    want = [0, *first, 2, 2, *second, 2]
    assert served["special"].tolist() == [0, 2, 1]
    assert served["pair"][0].tolist() == want + [1] * (20 - len(want)) and not served["types"].any()
    (guesses,) = loaded.predict("the <mask> was", top=3)[0]
    assert [t.decode("utf-8", "replace") for t in served["tokens"][0, 0]] == [
        token[:20] for token, _ in guesses
    ]
    np.testing.assert_allclose(served["probabilities"][0, 0], [p for _, p in guesses], rtol=1e-4)


def test_fine_tuning_of_a_run_and_of_its_export(run, pair, tmp_path):
    loaded = library.load(pair)
    assert loaded.family.name == "roberta"
    assert type(loaded.tokenizer).__name__ == "RobertaTokenizer"
    files = write_toys(tmp_path)
    for name, model in (("pair", run), ("tag", run), ("choose", pair), ("answer", pair)):
        folder = tmp_path / name
        finetuned(name, model, files, folder)
        assert ("model/hidden/kernel" in checkpoint(folder, "best")) == (name in ("pair", "choose"))
        assert tfnlp("export", "--model", folder, "--output", tmp_path / f"{name}_module") == 0


def test_going_on_from_a_checkpoint(book, tmp_path):
    # An update of a size that changes nothing in float32.
    more = ["--from", golden("roberta_huggingface"), "--steps", 1, "--learning-rate", "1e-30"]
    command = ["pretrain", "roberta", "--input", book, "--output", tmp_path / "run", *TRAINING]
    assert tfnlp(*command, "--seq-length", 16, *more) == 0
    before = library.load(golden("roberta_huggingface")).pretrainer
    found = checkpoint(tmp_path / "run", "best")
    for weight in before.weights:
        np.testing.assert_array_equal(found[f"model/{weight.path}"], weight.numpy())
