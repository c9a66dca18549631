"""Graphs of ids for ONNX Runtime and LiteRT, and the folders that they are in."""

import contextlib
import io
import json
import os
import re
import runpy
import sys
from types import SimpleNamespace

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
import tensorflow as tf

from tests.cli.toy_tasks import backbone
from tests.support import golden, run_python
from tfnlp import hub
from tfnlp.checkpoints import load_bert, load_gpt
from tfnlp.families import FAMILIES
from tfnlp.formats.graphed import Task
from tfnlp.hub.modules.fine_tuned import ids_function
from tfnlp.hub.saving import onnx as converter
from tfnlp.hub.saving.graphs import Graphs
from tfnlp.tasks import task_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated"),
]
LENGTH = 40
NUMBER = re.compile(r"-?\d+\.\d+(?:e-\d+)?")
SPECS = {
    "class": dict(task="classify", labels=("no", "yes", "perhaps")),
    "label": dict(task="labels", labels=("a", "b", "c"), thresholds=(0.25, 0.5, 0.6)),
    "score": dict(task="similarity", texts=2, mean=2.5, deviation=1.5),
    "orders": dict(task="similarity", texts=2, mean=2.5, deviation=1.5, both_orders=True),
    "scores": dict(task="scores", labels=("a", "b"), means=(2.5, -1.0), deviations=(1.5, 0.5)),
    "choice": dict(task="choose", choices=3),
    "tag": dict(task="tag", labels=("O", "B-x", "I-x"), splitter="marks"),
    "crf": dict(task="tag", labels=("O", "B-x", "I-x", "B-y"), crf=1.0),
    "span": dict(task="answer", max_question=8, max_answer=4, unanswerable=True),
}
LONG = [("bert", name) for name in ("class", "label", "score", "scores", "choice", "crf")]
LONG += [("gpt", "orders")]
TOYS = [
    ("bert", "span"),
    ("gpt", "tag"),
    *(pytest.param(*toy, marks=pytest.mark.long) for toy in LONG),
]


@pytest.fixture(scope="module")
def backbones(tmp_path_factory):
    bert = load_bert(golden("bert_google_tf_generated"))
    gpt = load_gpt(backbone("gpt", tmp_path_factory.mktemp("gpt")))
    for name, loaded in (("bert", bert), ("gpt", gpt)):
        loaded.family = FAMILIES[name]
    return {"bert": bert, "gpt": gpt}


def task_model(loaded, name):
    """A task's model with random weights, whose predictions differ from text to text."""
    task = task_of({**SPECS[name], "max_length": LENGTH})
    family = loaded.family
    model = family.fine_tuned(loaded, task, {"dropout": 0.1}, task.head, None)
    keras.utils.set_random_seed(3)
    for variable in model.trainable_variables:
        if variable.path.startswith(("classifier", "start", "end", "crf")):
            variable.assign(keras.random.normal(variable.shape, stddev=0.2))
    return hub.TaskModel(task, family.reader(loaded), model)


def write(loaded, made, folder):
    kept = {"backbone": {"arguments": loaded.config}}
    run = SimpleNamespace(task_model=made, family=loaded.family, config=kept, path="toy")
    places = {"litert": folder / "lite", "onnx": folder / "onnx"}
    with Task().graphs(run, None, places).written():
        pass
    return onnxruntime.InferenceSession(folder / "onnx" / "model.onnx")


def batch(made, rows, length):
    """Random packed ids, and the same as the Keras model takes them."""
    task, rng = made.task, np.random.default_rng(length)
    shape = (rows, length) if task.sequences == 1 else (rows, task.sequences, length)
    lengths = rng.integers(3, length + 1, shape[:-1])
    lengths.flat[0] = length
    mask = (np.arange(length) < lengths[..., None]).astype("int32")
    ids = {
        "input_word_ids": (rng.integers(4, 30, shape) * mask).astype("int32"),
        "input_mask": mask,
        "input_type_ids": (rng.integers(0, 2, shape) * mask).astype("int32"),
    }
    given = dict(ids)
    if made.reads_sequences and task.sequences == 1:
        given = {name: x[:, None] for name, x in ids.items()}
    given["extract_positions"] = np.atleast_2d(lengths.reshape(rows, -1) - 1).astype("int32")
    return ids, {name: tf.constant(given[name]) for name in made.model.input}


def expected(made, given):
    """The outputs of the Keras model, decoded in numpy."""
    found = {name: x.numpy() for name, x in made.model(given, training=False).items()}
    found.pop("sequence_output", None)
    for name in ("class_logits", "choice_logits"):
        if name in found:
            odds = np.exp(found[name] - found[name].max(1, keepdims=True))
            found["probabilities"] = odds / odds.sum(1, keepdims=True)
    if "label_logits" in found:
        found["probabilities"] = 1 / (1 + np.exp(-found["label_logits"]))
    if "score" in found:
        found["score"] = found["score"] * 1.5 + 2.5
    if "scores" in found:
        found["scores"] = found["scores"] * [1.5, 0.5] + [2.5, -1.0]
    return found


@pytest.mark.parametrize("kind, name", TOYS)
def test_graphs_compute_what_the_model_does_and_examples_say_so(
    kind, name, backbones, tmp_path, monkeypatch
):
    made = task_model(backbones[kind], name)
    session = write(backbones[kind], made, tmp_path)
    inputs = {x.name for x in session.get_inputs()}
    for rows, length in ((3, 12), (2, LENGTH)):
        ids, given = batch(made, rows, length)
        ids, want = {name: ids[name] for name in inputs}, expected(made, given)
        values = session.run(None, ids)
        results = [dict(zip([x.name for x in session.get_outputs()], values, strict=True))]
        if length == LENGTH:  # which is fixed in LiteRT's
            results.append(lite(tmp_path / "lite" / "model.tflite", **ids))
        for got in results:
            assert got.keys() == want.keys()
            for key, x in got.items():
                np.testing.assert_allclose(x, want[key], atol=1e-5, rtol=1e-6, err_msg=key)
    for folder in ("onnx", "lite"):
        with monkeypatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
            patch.setattr(sys, "argv", ["example.py", *TEXTS[made.task.output]])
            runpy.run_path(str(tmp_path / folder / "example.py"), run_name="__main__")
        check_said(made, said.getvalue().splitlines())


TEXTS = {  # arguments of the program beside a graph
    "class": ("the dog ran", "a cat sat"),
    "label": ("the dog ran", "a cat sat"),
    "score": ("the dog ran", "a cat sat", "home", "the cat"),
    "scores": ("the dog ran", "a cat sat"),
    "choice": ("the dog ran", "home", "the cat", "a"),
    "tag": ("the dog ran home.", "a (cat)"),
    "span": ("who went home ?", "The dog went home. The cat stayed."),
}


def check_said(made, lines):
    """Whether the program beside a graph prints the predictions of the library."""
    output, texts = made.task.output, TEXTS[made.task.output]
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    if output == "span":  # any piece may begin an answer there
        answer = lines[0].removeprefix(f"{texts[0]} ")
        assert len(lines) == 1 and (answer in texts[1] or answer == "(no answer)")
        return
    rows = {"choice": [texts], "score": pairs}.get(output, [(x,) for x in texts])
    found = made.predict(made.task.examples_of(rows))
    want = []
    for row, x in zip(rows, found, strict=True):
        if output == "tag":
            want.append(str(list(zip(x["words"], x["tags"], strict=True))))
        elif output == "choice":
            want.append(f"{row[0]} {dict(zip(row[1:], x['probabilities'], strict=True))}")
        else:
            shown = {"label": "labels", "score": "score", "scores": "scores"}.get(
                output, "probabilities"
            )
            want.append(f"{row if output == 'score' else row[0]} {x[shown]}")
    for line, other in zip(lines, want, strict=True):
        numbers = [[float(x) for x in NUMBER.findall(text)] for text in (line, other)]
        np.testing.assert_allclose(*numbers, atol=2e-4)
        assert NUMBER.sub("", line) == NUMBER.sub("", other)


def predicted(made, texts):
    return made.predict(made.task.examples_of([(text,) for text in texts]))


def test_a_folder_needs_no_tfnlp(backbones, tmp_path):
    made = task_model(backbones["bert"], "tag")
    write(backbones["bert"], made, tmp_path)
    names = ["example.py", "labels.txt", "model.onnx", "tokenizer.json", "tokenizer_config.json"]
    assert sorted(os.listdir(tmp_path / "onnx")) == [*names, "transitions.json", "vocab.txt"]
    assert (tmp_path / "onnx" / "labels.txt").read_text() == "O\nB-x\nI-x\n"
    moves = json.loads((tmp_path / "onnx" / "transitions.json").read_text())
    assert moves["start"] == [0, 0, -1e9] and moves["transitions"][0] == [0, 0, -1e9]
    run = (
        f"import runpy; runpy.run_path({str(tmp_path / 'onnx' / 'example.py')!r}, None, '__main__')"
    )
    done = run_python(run, "a cat", "the dog", without_tfnlp=True)
    assert len(done.stdout.splitlines()) == 2


def test_the_bytes_of_a_graph_are_the_same_each_time(backbones):
    """tf2onnx counts its names through a process, which changes the order of its sets, too."""
    made = task_model(backbones["bert"], "class")
    first, again = (converter.convert(ids_function(made), "toy", "int8") for _ in range(2))
    assert first == again
    onnx.checker.check_model(onnx.load_from_string(first), full_check=True)


@pytest.mark.parametrize(
    "weights, atol",
    [pytest.param("bfloat16", 0.02, marks=pytest.mark.long), ("int8", 0.06)],
)
def test_weights_in_fewer_bits(weights, atol, backbones, tmp_path):
    made = task_model(backbones["bert"], "class")
    ids, given = batch(made, 3, 9)
    want = expected(made, given)["probabilities"]
    graphs = Graphs({"onnx": tmp_path / "x.onnx"}, lambda fixed: ids_function(made), "toy")
    with graphs.written(weights):
        hub.export_fine_tuned(tmp_path / "m", made, weights=weights)
    session = onnxruntime.InferenceSession(tmp_path / "x.onnx")
    (got,) = session.run(["probabilities"], ids)
    assert 1e-5 < np.abs(got - want).max() < atol
    # Each matrix is what the SavedModel stores, but for its shape.
    found = onnx.load(tmp_path / "x.onnx").graph.initializer
    kinds = {"bfloat16": onnx.TensorProto.BFLOAT16, "int8": onnx.TensorProto.INT8}
    stored = [x for x in found if x.data_type == kinds[weights]]
    matrices = [v for v in made.model.variables if len(v.shape) > 1 and np.prod(v.shape) >= 1024]
    assert len(stored) == len(matrices)
    assert not any(len(x.dims) > 1 and x.data_type == 1 and np.prod(x.dims) > 1024 for x in found)

    module = tf.saved_model.load(str(tmp_path / "m"))
    texts = ["the dog ran home", "a cat sat here"]
    plain = [list(x["probabilities"].values()) for x in predicted(made, texts)]
    served = module.signatures["serving_default"](text=tf.constant(texts))
    assert 1e-5 < np.abs(served["probabilities"] - plain).max() < atol


def test_what_cannot_be_written_is_refused_and_leaves_nothing(backbones, tmp_path, monkeypatch):
    model, place = user_model(), tmp_path / "m"

    def refused(error, match, **settings):
        with pytest.raises(error, match=match):
            hub.export(model, place, **settings)

    both = tmp_path / "both"
    refused(ValueError, "onnx=.* also the place of .*m; choose", onnx=place / "x.onnx")
    refused(ValueError, "onnx=.* also the place of .*both", onnx=both, litert=both)
    both.mkdir()
    (both / "thesis.txt").write_text("mine")
    refused(FileExistsError, "both", onnx=both)
    text = keras.Input((), dtype="string")
    split = keras.layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=4)
    words = keras.Model(text, split(text), name="words")
    for path in (dict(onnx=tmp_path / "graph"), dict(litert=tmp_path / "x.tflite")):
        with pytest.raises(ValueError, match="model words cannot be .* which lacks"):
            hub.export(words, place, **path)
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    refused(ImportError, "pip install tf2onnx", onnx=tmp_path / "graph")
    assert os.listdir(tmp_path) == ["both"] and os.listdir(both) == ["thesis.txt"]


def lite(path, **inputs):
    """What a LiteRT file's signature gives."""
    return tf.lite.Interpreter(str(path)).get_signature_runner("serving_default")(**inputs)


def user_model():
    x = keras.Input((6,), name="x")
    hidden = keras.layers.Dense(64, "relu")(keras.layers.BatchNormalization()(x))
    return keras.Model(x, keras.layers.Dense(3, "softmax", name="classes")(hidden))


def test_a_model_of_somebody(tmp_path):
    model, path = user_model(), tmp_path / "lite" / "model.tflite"
    hub.export(model, tmp_path / "m", litert=path, onnx=tmp_path / "graph")
    assert os.listdir(tmp_path / "lite") == ["model.tflite"]
    assert os.listdir(tmp_path / "graph") == ["model.onnx"]
    session = onnxruntime.InferenceSession(tmp_path / "graph" / "model.onnx")
    for rows in (1, 3):
        x = np.random.default_rng(rows).normal(size=(rows, 6)).astype("float32")
        np.testing.assert_allclose(lite(path, x=x)["classes"], model(x), atol=1e-6)
        np.testing.assert_allclose(session.run(["classes"], {"x": x})[0], model(x), atol=1e-6)
    # Weights in fewer bits.
    size = path.stat().st_size
    for kind in ("int8", "bfloat16"):  # int8 is for matrices of more than 1,024 numbers
        hub.export(model, tmp_path / "m", litert=path, weights=kind, overwrite=True)
        np.testing.assert_allclose(lite(path, x=x)["classes"], model(x), atol=0.02)
    assert path.stat().st_size < size


def test_the_served_object(tmp_path, capfd):
    model, other = user_model(), user_model()
    signatures, path = {"serving_default": "other"}, tmp_path / "model.tflite"
    hub.export(model, tmp_path / "m", signatures, objects={"other": other}, litert=path)
    assert capfd.readouterr() == ("", "")  # nothing of the converter's
    x = np.ones((2, 6), "float32")
    np.testing.assert_allclose(lite(path, x=x)["classes"], other(x), atol=1e-6)
