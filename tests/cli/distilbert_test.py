"""A DistilBERT from its teacher to fine-tuned modules."""

import json
import os
import signal
import time

import numpy as np
import pytest

from tests.cli.command import checkpoint, error, tfnlp, weights
from tests.cli.toy_tasks import finetuned, write_toys
from tests.support import golden, run_python, start_python
from tfnlp import books
from tfnlp.models.distilbert import teacher_layers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

TOY = ["--num-layers", "4", "--hidden-size", "16", "--num-heads", "2", "--max-positions", "48"]
TRAINING = ["--seq-length", "16", "--batch-size", "8", "--steps-per-call", "1"]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "book.txt"
    path.write_text(books.path().read_text(encoding="utf-8")[:30_000])
    return path


@pytest.fixture(scope="module")
def teacher(book, tmp_path_factory):
    run = tmp_path_factory.mktemp("bert") / "run"
    command = ["pretrain", "bert", "--input", book, "--output", run, *TRAINING, *TOY]
    assert tfnlp(*command, "--vocab-size", 300, "--steps", 4) == 0
    return run


def distil(book, output, *more):
    return ["pretrain", "distilbert", "--input", book, "--output", output, *TRAINING, *more]


@pytest.fixture(scope="module")
def student(book, teacher, tmp_path_factory):
    run = tmp_path_factory.mktemp("distilbert") / "run"
    more = ["--teacher", teacher, "--steps", 6, "--checkpoint-every", 1]
    assert tfnlp(*distil(book, run, *more)) == 0
    return run


def test_the_run_has_half_the_layers_and_the_teachers_vocabulary(student, teacher):
    config = json.loads((student / "config.json").read_text())
    theirs = json.loads((teacher / "config.json").read_text())
    assert config["model"] == "distilbert" and config["arguments"]["num_layers"] == 2
    same = ("vocab_size", "hidden_size", "num_heads", "intermediate_size", "max_positions")
    assert all(config["arguments"][name] == theirs["arguments"][name] for name in same)
    assert (student / "vocab.txt").read_bytes() == (teacher / "vocab.txt").read_bytes()
    assert not any("pooler" in n or "segment" in n or "layer_2" in n for n in checkpoint(student))


def test_it_starts_from_the_teachers_layers(book, teacher, tmp_path):
    # An update of a size that changes nothing in float32.
    more = ["--teacher", teacher, "--steps", 1, "--learning-rate", "1e-30"]
    assert tfnlp(*distil(book, tmp_path / "run", *more)) == 0
    found, theirs = checkpoint(tmp_path / "run"), checkpoint(teacher, "best")
    name = "model/layer_{}/intermediate/kernel"
    for mine, other in enumerate(teacher_layers(2, 4)):
        np.testing.assert_array_equal(found[name.format(mine)], theirs[name.format(other)])
    assert tfnlp(*distil(book, tmp_path / "new", *more, "--new-weights")) == 0
    new = checkpoint(tmp_path / "new")[name.format(0)]
    assert np.abs(new - theirs[name.format(0)]).max() > 1e-3


def test_a_killed_run_ends_bit_identical(book, teacher, student, tmp_path, capsys):
    run = tmp_path / "run"
    more = ["--teacher", teacher, "--steps", 6, "--checkpoint-every", 1]
    process = start_python("-m", "tfnlp", *distil(book, run, *more))
    while process.poll() is None:
        if (run / "checkpoints").exists() and list((run / "checkpoints").glob("step-*")):
            process.send_signal(signal.SIGKILL)
            process.wait()
        time.sleep(0.002)
    assert process.returncode == -signal.SIGKILL
    assert tfnlp(*distil(book, run, *more)) == 0
    for a, b in zip(weights(student), weights(run), strict=True):
        np.testing.assert_array_equal(a, b)

    other = tmp_path / "other"
    command = ["pretrain", "bert", "--input", book, "--output", other, *TRAINING, *TOY]
    assert tfnlp(*command, "--vocab", teacher / "vocab.txt", "--steps", 1, "--seed", 2) == 0
    capsys.readouterr()
    assert tfnlp(*distil(book, run, *more, "--teacher", other)) == 1
    assert "teacher_crc32 was" in error(capsys)


def test_evaluate_predict_and_hugging_face(book, student, tmp_path, capsys):
    found = []
    checkpoint_folder = tmp_path / "huggingface"
    export = ["export", "--model", student, "--output", checkpoint_folder]
    assert tfnlp(*export, "--format", "huggingface") == 0
    capsys.readouterr()
    for model in (student, checkpoint_folder):
        command = ["evaluate", "--model", model, "--input", book, "--seq-length", 16]
        assert tfnlp(*command, "--batches", 4, "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
        assert tfnlp("predict", "distilbert", "--model", model, "the [MASK] was") == 0
        found[-1]["said"] = capsys.readouterr().out
    assert found[0] == found[1] and set(found[0]) >= {"masked_lm_loss", "masked_lm_accuracy"}
    assert tfnlp("predict", "distilbert", "--model", student, "the") == 1
    assert "has no [MASK] to fill; write one" in error(capsys)


READER = """
import sys
sys.modules["tfnlp"] = None
import numpy as np, tensorflow as tf, tensorflow_text
pair = [tf.saved_model.load(f"{sys.argv[1]}/{name}") for name in ("encoder", "preprocessor")]
outputs = pair[0](pair[1](tf.constant(["the garden was", "a robin"])))
assert "pooled_output" not in outputs and len(outputs["encoder_outputs"]) == 2
np.save(sys.argv[2], outputs["sequence_output"].numpy())
"""


def test_exported_pair_and_fine_tuning(student, tmp_path, capsys):
    import tfnlp as library

    pair = tmp_path / "pair"
    assert tfnlp("export", "--model", student, "--output", pair, "--seq-length", 12) == 0
    run_python(READER, pair, tmp_path / "served.npy", without_tfnlp=True)
    served, real = np.load(tmp_path / "served.npy"), 4
    vectors = library.load(student)(["the garden was", "a robin"])["sequence_output"]
    np.testing.assert_allclose(served[0, :real], np.asarray(vectors)[0, :real], atol=1e-5)
    assert library.load(pair).family.name == "distilbert"

    files = write_toys(tmp_path)
    for name, model in (("classify", student), ("tag", student), ("choose", pair)):
        run = tmp_path / name
        finetuned(name, model, files, run)
        kernel = "model/hidden/kernel"
        assert (kernel in checkpoint(run, "best")) == (name != "tag")
        assert tfnlp("export", "--model", run, "--output", tmp_path / f"{name}_module") == 0
        assert os.listdir(tmp_path / f"{name}_module")
    assert tfnlp("inspect", tmp_path / "classify_module") == 0
    assert "label" in capsys.readouterr().out


def test_examples_give_the_batches_of_the_text(book, teacher, tmp_path):
    common = ["--seq-length", 16, "--vocab", teacher / "vocab.txt", "--input", book]
    folder, runs = tmp_path / "examples", []
    assert tfnlp("examples", "distilbert", *common, "--output", folder, "--epochs", 2) == 0
    for name, source in (("text", common), ("shards", ["--examples", folder])):
        runs.append(tmp_path / name)
        command = ["pretrain", "distilbert", *source, "--output", runs[-1], *TRAINING[2:], *TOY]
        assert tfnlp(*command, "--steps", 3) == 0
    for a, b in zip(*map(weights, runs), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "more, said",
    [
        (["--temperature", "3"], "--temperature is about what is learnt from a --teacher"),
        (["--teacher", "TEACHER", "--cased"], "--cased can't be given with --teacher"),
        (["--teacher", "TEACHER", "--hidden-size", "8"], "--cosine-weight 0 to leave that out"),
        (
            ["--teacher", "TEACHER", "--distillation-weight", "0", "--cosine-weight", "0"],
            "are 0: leave --teacher out",
        ),
        (["--teacher", "GPT"], "has no masked-LM head"),
        (["--teacher", "TEACHER", "--seq-length", "64"], "longer than the model's 48 positions"),
    ],
)
def test_refusals(more, said, book, teacher, tmp_path, capsys):
    places = {"TEACHER": teacher, "GPT": golden("gpt2_openai_tf")}
    more = [places.get(one, one) for one in more]
    assert tfnlp(*distil(book, tmp_path / "run", *more)) == 1
    assert said in error(capsys)
    assert not (tmp_path / "run").exists()


def test_the_teacher_is_no_output(book, teacher, capsys):
    assert tfnlp(*distil(book, teacher, "--teacher", teacher, "--restart")) == 1
    assert "is the teacher; give a new folder" in error(capsys)
    assert (teacher / "checkpoints").exists()


def test_a_student_that_the_teachers_layers_do_not_fit(book, teacher, tmp_path, capsys):
    more = ["--teacher", teacher, "--steps", 2, "--num-heads", "4"]
    assert tfnlp(*distil(book, tmp_path / "run", *more)) == 0
    assert "does not start from its teacher's layers" in capsys.readouterr().err


def test_going_on_without_and_with_the_teacher(book, teacher, student, tmp_path):
    for name, more in (("alone", []), ("taught", ["--teacher", teacher])):
        run = tmp_path / name
        command = distil(book, run, "--from", student, "--steps", 1, "--learning-rate", "1e-30")
        assert tfnlp(*command, *more) == 0
        for a, b in zip(weights(run), weights(student), strict=True):
            np.testing.assert_array_equal(a, b)
