"""The functions of `import tfnlp`, beside the command."""

import json
import pathlib
import shutil
import warnings

import keras
import numpy as np
import pytest

import tfnlp
from tests.cli.command import tfnlp as command
from tests.cli.command import weights
from tests.cli.toy_tasks import backbone
from tests.made import options
from tests.runs.conftest import ROWS, SMALL
from tests.support import run_python
from tfnlp.serving.module import load_served


@pytest.mark.slow
def test_runs_of_function_and_command_are_the_same(run, text, tmp_path):
    more = ["--input", text, "--layout", "lines", *options(SMALL)]
    assert command("pretrain", "bert", *more, "--output", tmp_path / "run") == 0
    there = pathlib.Path(run.path)
    for ours, theirs in zip(weights(tmp_path / "run"), weights(there), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    config = (tmp_path / "run/config.json").read_text()
    assert config == (there / "config.json").read_text()
    # Each takes the other's run for finished: nothing is trained, no settings differ.
    again = tfnlp.pretrain("bert", text=str(text), layout="lines", output=tmp_path / "run", **SMALL)
    assert again.results["masked_lm_loss"] == run.results["masked_lm_loss"]
    assert command("pretrain", "bert", *more, "--output", run.path) == 0


@pytest.mark.slow
def test_vectors_of_texts_that_are_cut_warn(tmp_path):
    loaded = tfnlp.load(backbone("bert", tmp_path))
    length = min(128, loaded.config["max_positions"])
    assert loaded.tokenizer.tokenize(["the the"]).row_lengths() == [2]
    fits, more = "the " * (length - 2), "the " * (length - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded([fits])
    with pytest.warns(UserWarning, match=f"1 of 2 texts are longer than {length} tokens and"):
        loaded([fits, more])


@pytest.mark.slow
def test_the_loaded_model_is_the_trained_one(run):
    loaded = tfnlp.load(run.path)
    for ours, theirs in zip(loaded.encoder.get_weights(), run.encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.predict([]) == [] and loaded.embed([]).shape == (0, 8)
    with pytest.raises(ValueError, match="no text"):
        loaded.predict()


@pytest.mark.slow
def test_a_run_that_was_killed_before_it_wrote_its_vocabulary_goes_on(run, text, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.path, folder)
    config, vocabulary = folder / "config.json", folder / "vocab.txt"
    written = config.read_text()
    assert set(json.loads(written)["files"]) == {"vocab.txt"}
    kept = vocabulary.read_text()
    again = {"text": text, "layout": "lines", "output": folder, **SMALL}
    # It has recorded no checksum.
    vocabulary.unlink()
    config.write_text(json.dumps({k: v for k, v in json.loads(written).items() if k != "files"}))
    found = tfnlp.pretrain("bert", **again)
    assert found.results["masked_lm_loss"] == run.results["masked_lm_loss"]
    assert (config.read_text(), vocabulary.read_text()) == (written, kept)


@pytest.mark.slow
def test_exported_modules_load(run, tmp_path):
    run.export(tmp_path / "pair", seq_length=16)
    loaded = tfnlp.load(tmp_path / "pair")
    assert len(tfnlp.inspect(tmp_path / "pair")) == 2
    for call in (
        lambda: loaded.export(tmp_path / "again"),
        lambda: loaded.predict("a [MASK]"),
        lambda: loaded.evaluate("book:the_secret_garden"),
    ):
        with pytest.raises(ValueError, match="is an exported module"):
            call()


@pytest.mark.slow
def test_fine_tuned_model(task, tmp_path):
    assert task.task == "classify" and task.labels == ["no", "yes"]
    files = json.loads(pathlib.Path(task.path, "config.json").read_text())["files"]
    assert set(files) == {"vocab.txt", "results.json"}
    assert len(task.dev) == round(0.1 * len(ROWS))  # held out
    assert task.config["data"]["examples"] == len(ROWS) - len(task.dev)
    metrics = task.results["metrics"]
    assert task.evaluate(task.dev) == pytest.approx(metrics)
    found = task.predict(["a good book", "a bad one"])
    assert [set(p) for p in found] == [{"label", "probabilities"}] * 2
    module = tfnlp.load(task.export(tmp_path / "module")["module"])
    with pytest.raises(ValueError, match="does not take these inputs"):
        module(3)
    loaded = tfnlp.load(task.path)
    assert loaded.predict(["a good book", "a bad one"]) == found
    assert loaded("a good book") == loaded.predict("a good book") == loaded(["a good book"])[0]


@pytest.mark.slow
def test_a_run_is_served_with_rows_of_its_dev_set(task):
    served = load_served(task.path)
    (action,) = served.actions.values()
    texts = [row["text"] for row in action.examples]
    labels = {text: label for text, label in ROWS}
    assert sorted(texts) == sorted(example.segments[0] for example in task.dev)
    assert {labels[text] for text in texts[:2]} == {labels[text] for text in texts}
    found = action.run(action.examples)
    assert [one["label"] for one in found] == [one["label"] for one in task.predict(texts)]
    assert action.described()["examples"] == action.examples and action.labels == ("no", "yes")


@pytest.mark.slow
def test_the_measures_of_a_16_bit_training_are_those_of_evaluate(run, tmp_path):
    rows = [(f"{text} and {i * 7}", f"the book {i}", i / 7) for i, (text, _) in enumerate(ROWS)]
    task = tfnlp.finetune(
        "similarity", run, train=rows, output=tmp_path / "task", epochs=1, batch_size=8,
        held_out=0.5, fp16=True,
    )  # fmt: skip
    assert task.evaluate(task.dev) == task.results["metrics"]
    found = {name: task.config["training"][name] for name in ("bf16", "fp16")}
    assert found == {"bf16": False, "fp16": True}


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: tfnlp.pretrain("t5", "x", "y"), "family"),
        (lambda: tfnlp.finetune("parse", "x", []), "task"),
        (lambda: tfnlp.pretrain("bert", "x", "y", step=3), "step; did you mean steps"),
        (lambda: tfnlp.pretrain("bert", "x"), "`output`"),
        (lambda: tfnlp.finetune("tag", "x", [], output="y", bf16=True, fp16=True), "`fp16`"),
        (lambda: tfnlp.pretrain("gpt", "x", "y", size="big"), "`size`"),
        (lambda: tfnlp.settings(["tag"]), "`name`"),
        (lambda: tfnlp.load(3), "`path` 3"),
        (lambda: tfnlp.inspect(None), "`path` None"),
        (lambda: tfnlp.pretrain(["bert"], "x", "y"), "`family`"),
        (lambda: tfnlp.pretrain("bert", "x", 3), "`output` 3"),
        (lambda: tfnlp.pretrain("bert", "x", "y", start=3), "`start` 3"),
        (lambda: tfnlp.finetune(["tag"], "x", []), "`task`"),
        (lambda: tfnlp.finetune("tag", 3, [(["a"], ["B"])], output="y"), "`model` 3"),
        (lambda: tfnlp.finetune("fill", 3, "x", output="y"), "`model` 3"),
        (lambda: tfnlp.finetune("fill", "", "x", output="y"), "`model` is empty"),
        (lambda: tfnlp.finetune("tag", "x", [], output=["y"]), "`output`"),
        (lambda: tfnlp.finetune("tag", "x", [], output="y", teacher=["z"]), "`teacher`"),
        (lambda: tfnlp.export(None, "y"), "`model` None"),
        (lambda: tfnlp.export("x", None), "`directory` None"),
        (lambda: tfnlp.embed(3, ["a"], "y.npy"), "`model` 3"),
        (lambda: tfnlp.embed("x", ["a"], 3), "`output` 3"),
    ],
)
def test_errors_name_the_argument(call, name):
    with pytest.raises(ValueError, match=name):
        call()


@pytest.mark.slow
def test_keras_loads_models_of_our_layers(tmp_path):
    from tfnlp.layers import TokenEmbedding

    ids = keras.Input((4,), dtype="int32")
    keras.Model(ids, TokenEmbedding(9, 3)(ids)).save(tmp_path / "x.keras")
    code = "import keras, tfnlp, sys\n"
    code += "print(keras.saving.load_model(sys.argv[1]).layers[1].vocab_size)"
    assert run_python(code, tmp_path / "x.keras").stdout.split() == ["9"]
