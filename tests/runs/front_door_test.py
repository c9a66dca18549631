"""The functions of `import tfnlp`, beside the command and beside runs of earlier versions."""

import json
import re
import shutil
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfnlp
from tests.cli.command import tfnlp as command
from tests.cli.command import weights
from tests.cli.toy_tasks import backbone
from tests.support import golden, run_python
from tfnlp import books

OLD = "runs_0.1.0"  # made by the version before families: a BERT, a task on it, a module
SMALL = dict(
    size="tiny", num_layers=1, hidden_size=8, num_heads=2, seq_length=16, max_positions=16,
    vocab_size=300, batch_size=8, steps=4, steps_per_call=2, evaluate_batches=2,
)  # fmt: skip
ROWS = [(f"the {'good' if i % 2 else 'bad'} book number {i}", "no yes".split()[i % 2])
        for i in range(40)]  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file of sentences, a blank line between documents."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    words = books.path().read_text(encoding="utf-8")[:40_000].split()
    lines = [" ".join(words[i : i + 9]) for i in range(0, len(words), 9)]
    documents = ["\n".join(lines[i : i + 6]) for i in range(0, len(lines), 6)]
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(text, tmp_path_factory):
    """A toy that the function has pretrained."""
    folder = tmp_path_factory.mktemp("run") / "run"
    return tfnlp.pretrain("bert", text=text, layout="lines", output=folder, **SMALL)


@pytest.fixture(scope="module")
def task(run, tmp_path_factory):
    """A toy that the function has fine-tuned, without dev examples of its own."""
    folder = tmp_path_factory.mktemp("task") / "task"
    return tfnlp.finetune("classify", run, train=ROWS, output=folder, epochs=2, batch_size=8)


def options(settings):
    flags = [f"--{name.replace('_', '-')}" for name in settings]
    return [word for pair in zip(flags, settings.values(), strict=True) for word in pair]


@pytest.mark.slow
def test_runs_of_function_and_command_are_the_same(run, text, tmp_path, capsys):
    more = ["--input", text, "--layout", "lines", *options(SMALL)]
    capsys.readouterr()
    assert command("pretrain", "bert", *more, "--output", tmp_path / "run") == 0
    said = re.search(
        r", (.+) of (.+) sentences longer than 13 tokens and cut;", capsys.readouterr().out
    )
    lines = [line for line in text.read_text(encoding="utf-8").split("\n") if line]
    tokens = run.tokenizer.tokenize(lines).row_lengths().numpy()
    cut, sentences = (int(number.replace(",", "")) for number in said.groups())
    held_out = len(lines) - sentences
    assert 0 < held_out < 100 and 0 <= (tokens > 13).sum() - cut <= held_out and cut > 0
    for ours, theirs in zip(weights(tmp_path / "run"), weights(_folder(run)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    config = (tmp_path / "run/config.json").read_text()
    assert config == (_folder(run) / "config.json").read_text()
    # Each takes the other's run for finished: nothing is trained, no settings differ.
    again = tfnlp.pretrain("bert", text=str(text), layout="lines", output=tmp_path / "run", **SMALL)
    assert again.results["masked_lm_loss"] == run.results["masked_lm_loss"]
    assert command("pretrain", "bert", *more, "--output", run.path) == 0


@pytest.mark.parametrize("kind, special", [("bert", 2), ("gpt", 0)])
def test_vectors_of_texts_that_are_cut_warn(kind, special, tmp_path):
    loaded = tfnlp.load(backbone(kind, tmp_path))
    length = min(128, loaded.config["max_positions"])
    texts = ["the " * n for n in range(1, length + 2)]
    counts = loaded.tokenizer.tokenize(texts).row_lengths().numpy() + special
    fits, more = ([t for t, n in zip(texts, counts, strict=True) if (n > length) == long]
                  for long in (False, True))  # fmt: skip
    assert length in counts
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded(fits[-2:])
    with pytest.warns(UserWarning, match=f"1 of 3 texts are longer than {length} tokens and"):
        loaded([*fits[-2:], more[0]])


def _folder(loaded):
    import pathlib

    return pathlib.Path(loaded.path)


@pytest.mark.slow
def test_python_text_makes_the_same_corpus_as_a_file(run, text, tmp_path):
    documents = [d.split("\n") for d in text.read_text(encoding="utf-8").strip().split("\n\n")]
    texts = tf.data.Dataset.from_tensor_slices([["\n".join(d)] for d in documents]).unbatch()
    vocab = _folder(run) / "vocab.txt"
    want = run.run["corpus"]
    columns = {"text": ["\n".join(d) for d in documents]}
    for number, source in enumerate((documents, texts, columns)):
        found = tfnlp.pretrain(
            "bert", text=source, layout="lines", vocab=str(vocab),
            output=tmp_path / str(number), **{**SMALL, "steps": 1},
        )  # fmt: skip
        assert found.run["corpus"] == want


def test_the_loaded_model_is_the_trained_one(run):
    loaded = tfnlp.load(run.path)
    for ours, theirs in zip(loaded.encoder.get_weights(), run.encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    outputs = loaded(["the house was quiet", "it"])
    assert outputs["pooled_output"].shape == (2, 8)
    ((guesses,),) = loaded.predict("Mary went into the [MASK] .", top=3)
    assert len(guesses) == 3 and 0 < guesses[0][1] < 1
    with pytest.raises(ValueError, match="`beams` is for a Transformer or a seq2seq model"):
        loaded.export("nowhere", beams=3)


def test_a_run_goes_on_only_with_its_own_files(run, text, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.path, folder)
    config, vocabulary = folder / "config.json", folder / "vocab.txt"
    written = config.read_text()
    assert set(json.loads(written)["files"]) == {"vocab.txt"}
    kept = vocabulary.read_text()
    vocabulary.write_text(kept.replace("the\n", "The\n", 1))
    again = {"text": text, "layout": "lines", "output": folder, **SMALL}
    with pytest.raises(ValueError, match="vocab.txt was changed"):
        tfnlp.pretrain("bert", **again)
    # A run that was killed before it wrote its vocabulary has recorded no checksum.
    vocabulary.unlink()
    config.write_text(json.dumps({k: v for k, v in json.loads(written).items() if k != "files"}))
    found = tfnlp.pretrain("bert", **again)
    assert found.results["masked_lm_loss"] == run.results["masked_lm_loss"]
    assert (config.read_text(), vocabulary.read_text()) == (written, kept)


@pytest.mark.slow
def test_exported_modules_load_and_fine_tune(run, tmp_path):
    written = run.export(tmp_path / "pair", seq_length=16)
    assert set(written) == {"encoder", "preprocessor"}
    loaded = tfnlp.load(tmp_path / "pair")
    want, got = run(["a robin sang"]), loaded(["a robin sang"])
    np.testing.assert_allclose(got["pooled_output"], want["pooled_output"], atol=1e-5)
    assert len(tfnlp.inspect(tmp_path / "pair")) == 2
    for call in (
        lambda: loaded.export(tmp_path / "again"),
        lambda: loaded.predict("a [MASK]"),
        lambda: loaded.evaluate("book:the_secret_garden"),
    ):
        with pytest.raises(ValueError, match="is an exported module: it can be called and fine"):
            call()
    task = tfnlp.finetune(
        "classify", loaded, train=ROWS, output=tmp_path / "task", epochs=1, batch_size=8
    )
    assert set(tfnlp.load(tmp_path / "task").predict(["a good book"])[0]) >= {"label"}
    assert task.config["backbone"]["saved"] is True


def test_save_writes_what_others_read(run, tmp_path):
    run.save(tmp_path / "hf", format="huggingface")
    again = tfnlp.load(tmp_path / "hf")
    for ours, theirs in zip(again.encoder.get_weights(), run.encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert again.tokenizer.vocabulary == run.tokenizer.vocabulary


@pytest.mark.slow
def test_fine_tuned_model(task, tmp_path):
    assert task.task == "classify" and task.labels == ["no", "yes"]
    files = json.loads((_folder(task) / "config.json").read_text())["files"]
    assert set(files) == {"vocab.txt", "results.json"}
    metrics = task.results["metrics"]
    assert task.evaluate(task.dev) == pytest.approx(metrics)
    found = task.predict(["a good book", "a bad one"])
    assert [set(p) for p in found] == [{"label", "probabilities"}] * 2
    assert sum(found[0]["probabilities"].values()) == pytest.approx(1, abs=1e-6)
    page = task.report(tmp_path / "page")
    assert "accuracy" in open(page, encoding="utf-8").read()
    module = tfnlp.load(task.export(tmp_path / "module")["module"])
    labels = module(text=["a good book", "a bad one"])["label"].numpy()
    assert [label.decode() for label in labels] == [p["label"] for p in found]
    with pytest.raises(ValueError, match="does not take these inputs; print"):
        module(["a", "b"])
    loaded = tfnlp.load(task.path)
    assert loaded.predict(["a good book", "a bad one"]) == found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_the_measures_of_a_16_bit_training_are_those_of_evaluate(run, tmp_path, kind):
    rows = [(f"{text} and {i * 7}", f"the book {i}", i / 7) for i, (text, _) in enumerate(ROWS)]
    task = tfnlp.finetune(
        "similarity", run, train=rows, output=tmp_path / "task", epochs=1, batch_size=8,
        held_out=0.5, **{kind: True},
    )  # fmt: skip
    assert task.evaluate(task.dev) == task.results["metrics"]
    found = {name: task.config["training"][name] for name in ("bf16", "fp16")}
    assert found == {"bf16": kind == "bf16", "fp16": kind == "fp16"}


@pytest.mark.slow
def test_predictions_in_bfloat16_are_near_those_in_float32(task, capsys):
    text = "a good book of a hundred words"
    (want,) = task.predict([text])
    assert command("predict", "task", "--model", task.path, "--bf16", "--json", text) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["label"] == want["label"] and found["probabilities"] != want["probabilities"]
    assert found["probabilities"] == pytest.approx(want["probabilities"], abs=0.02)
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.slow
def test_held_out_examples_are_a_share_of_the_rows(task):
    assert len(task.dev) == round(0.1 * len(ROWS))
    assert task.config["data"]["examples"] == len(ROWS) - len(task.dev)


def test_runs_of_the_version_before_still_work(tmp_path, capsys):
    for name in ("bert", "task", "module"):
        shutil.copytree(golden(OLD) / name, tmp_path / name)
    want = json.loads((golden(OLD) / "expected.json").read_text())
    bert = tfnlp.load(tmp_path / "bert")
    found = bert.evaluate(golden(OLD) / "text.txt", seq_length=16, batches=3)
    assert found == pytest.approx(want["bert"], abs=1e-6)
    task = tfnlp.load(tmp_path / "task")
    assert task.evaluate(golden(OLD) / "dev.tsv") == pytest.approx(want["task"], abs=1e-6)
    (found,) = task.predict(["The book is lovely and the garden too."])
    assert found["label"] == want["prediction"]["label"]
    assert found["probabilities"] == pytest.approx(want["prediction"]["probabilities"], abs=1e-6)
    vectors = tfnlp.load(tmp_path / "module")(["Mary and the garden"])
    np.testing.assert_allclose(vectors, want["vectors"], atol=1e-6)
    # The same commands take them for finished.
    more = ["--vocab-size", 200, "--size", "tiny", "--num-layers", 1, "--hidden-size", 8]
    more += ["--num-heads", 2, "--intermediate-size", 16, "--max-positions", 32]
    more += ["--seq-length", 16, "--batch-size", 8, "--steps", 6, "--evaluate-batches", 2]
    text = ["--input", golden(OLD) / "text.txt", "--output", tmp_path / "bert", "--keep", 1]
    assert command("pretrain", "bert", *text, *more) == 0
    rows = ["--train", golden(OLD) / "train.tsv", "--dev", golden(OLD) / "dev.tsv"]
    more = ["--epochs", 1, "--max-length", 16, "--output", tmp_path / "task"]
    capsys.readouterr()
    assert command("finetune", "classify", "--model", tmp_path / "bert", *rows, *more) == 0
    assert "has ended before" in capsys.readouterr().out
    # One that had not ended goes on with the optimizer that it began with.
    (tmp_path / "task/results.json").unlink()
    assert command("finetune", "classify", "--model", tmp_path / "bert", *rows, *more) == 0
    found = json.loads((tmp_path / "task/results.json").read_text())["metrics"]
    assert found == pytest.approx(want["task"], abs=1e-6)
    more += ["--optimizer", "bert_adamw"]
    assert command("finetune", "classify", "--model", tmp_path / "bert", *rows, *more) == 1
    assert "training.optimizer was adamw_hat, now bert_adamw" in capsys.readouterr().err


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: tfnlp.pretrain("t5", "x", "y"), "family='t5' must be one of word2vec"),
        (lambda: tfnlp.finetune("parse", "x", []), "task='parse' must be one of classify"),
        (lambda: tfnlp.pretrain("bert", "x", "y", step=3), "no argument step; did you mean steps"),
        (lambda: tfnlp.pretrain("bert", "x"), "the argument `output` is missing"),
        (lambda: tfnlp.pretrain("bert", "x", "y", steps=0), "`steps` 0 must be at least 1"),
        (lambda: tfnlp.pretrain("bert", "x", "y", steps="9"), "`steps` '9' must be a whole number"),
        (lambda: tfnlp.pretrain("bert", "x", "y", bf16=1), "`bf16` 1 must be True or False"),
        (lambda: tfnlp.pretrain("bert", "x", "y", bf16=True, fp16=True), "give `bf16` or `fp16`"),
        (
            lambda: tfnlp.finetune("tag", "x", [], output="y", bf16=True, fp16=True),
            "give `bf16` or `fp16`",
        ),
        (lambda: tfnlp.pretrain("gpt", "x", "y", size="big"), "`size` 'big' must be one of mini"),
        (lambda: tfnlp.settings("bart"), "name='bart' must be one of word2vec"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_settings_are_told():
    found = tfnlp.settings("bert")
    assert found["learning_rate"] == "peak learning rate (default 0.0005)"
    assert found["output"].endswith("(required)") and "text" in found
    assert tfnlp.settings("answer")["max_length"].endswith("(default 384)")


@pytest.mark.slow
@pytest.mark.parametrize("first, second", [("keras", "tfnlp"), ("tfnlp", "keras")])
def test_keras_loads_models_of_our_layers(first, second, tmp_path):
    from tfnlp.layers import TokenEmbedding

    ids = keras.Input((4,), dtype="int32")
    keras.Model(ids, TokenEmbedding(9, 3)(ids)).save(tmp_path / "x.keras")
    code = f"import {first}, {second}\nimport sys\n"
    code += "print(keras.saving.load_model(sys.argv[1]).layers[1].vocab_size)"
    assert run_python(code, tmp_path / "x.keras").stdout.split() == ["9"]
