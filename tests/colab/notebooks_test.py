"""Every notebook at toy size: it runs to its end, and says what its exported modules say here."""

import importlib.util
import json
import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  exported tokenizers have its operations

import tfnlp
from tests.hub import elmo_toy
from tfnlp import hub

pytest.importorskip("nbclient")
pytest.importorskip("tensorflow_datasets")
from tests.colab import sets, toy_models  # noqa: E402
from tests.colab.notebooks import are_drawn, cell, numbers, run_notebook, text  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_pretrain_bert_tpu(engine, tmp_path):
    sets.wikipedia(str(tmp_path / "tfds"))
    environment = dict(KERAS_BACKEND=engine, TFDS_DATA_DIR=str(tmp_path / "tfds"))
    notebook = run_notebook("pretrain_bert_tpu", tmp_path, **environment)
    assert "60 documents" in text(notebook, "corpus")
    # The plan is drawn where the TPU's compiler is installed.
    if importlib.util.find_spec("libtpu"):
        assert json.loads((tmp_path / "plan.json").read_text())["verdict"] == "fits"
    else:
        assert text(notebook, "plan").startswith("no plan")
    assert f"CPU, {engine}, 1 replica" in text(notebook, "devices")
    first, last = numbers(notebook, "training", r"loss ([\d.]+)")
    assert last < first - 0.2
    assert numbers(notebook, "training", r"after +(\d+) steps") == [4, 40]
    assert are_drawn(notebook, "curve", "speed", "after", "attention")
    assert text(notebook, "before") != text(notebook, "after")
    assert len(re.findall(r".*\[MASK\].* -> .*", text(notebook, "after"))) == 3
    assert len(re.findall(r"^  [01]\.\d\d  \S", text(notebook, "load"), re.M)) == 4
    assert "31 of 31 weights have a gradient" in text(notebook, "load")


def test_elmo_to_tagger(tmp_path):
    folder = str(tmp_path / "sets")
    sets.wikipedia(folder)
    sets.universal_dependencies(folder)
    notebook = run_notebook("elmo_to_tagger", tmp_path, TFDS_DATA_DIR=folder)
    first, last = numbers(notebook, "training", r"(\d+) after \d+")
    assert last < 0.8 * first
    rows = re.findall(r"^(.*?) +(\d\.\d+) +(\d\.\d+)$", text(notebook, "compare"), re.M)
    assert [name.split()[-1] for name, *_ in rows] == ["tag", "words", "ELMo"]
    assert float(rows[2][1]) > 0.5  # a fifth of the words have the commonest tag
    shares = numbers(notebook, "mix", r" (\d\.\d+)")
    assert len(shares) == 3 and sum(shares) == pytest.approx(1, abs=0.002) and np.ptp(shares) > 0
    assert are_drawn(notebook, "senses", "mix")
    tagger = tf.saved_model.load(str(tmp_path / "elmo/tagger_module"))
    lines = text(notebook, "load").splitlines()
    assert len(lines) == 2
    for line in lines:
        words, tags = zip(*(pair.rsplit("/", 1) for pair in line.split()), strict=True)
        found = tagger({"text": tf.constant([" ".join(words)])})["tags"][0].numpy().astype(str)
        assert list(tags) == list(found)


def test_finetune_glue_tpu(tmp_path):
    sets.glue(str(tmp_path / "tfds"))
    words = [*sets.GOOD, *sets.BAD, *sets.THINGS, *"a the is such in may he sold house".split()]
    model = toy_models.bert(tmp_path / "bert", words)
    notebook = run_notebook(
        "finetune_glue_tpu",
        tmp_path,
        parameters=dict(model=model, glue="sst2"),
        TFDS_DATA_DIR=str(tmp_path / "tfds"),
        KERAS_BACKEND="jax",
    )
    assert "CPU, jax." in text(notebook, "devices") and are_drawn(notebook, "curve")
    assert "positive" in (tmp_path / "glue/sst2/page.html").read_text(encoding="utf-8")
    # The module, in plain TensorFlow, has the accuracy that was printed.
    rows = list(sets.sst2(40, seed=1))
    labels = np.array([("negative", "positive")[row["label"]] for row in rows])
    module = tf.saved_model.load(str(tmp_path / "glue/module"))
    sentences = tf.constant([row["sentence"] for row in rows])
    found = module.signatures["serving_default"](text=sentences)["label"].numpy().astype(str)
    (printed,) = numbers(notebook, "baseline", r"accuracy ([\d.]+)")
    assert printed == pytest.approx(np.mean(found == labels), abs=1e-3)
    first = re.match(r"(\w+) +([\d.]+)", text(notebook, "predict"))
    assert f"label ['{first[1]}']" in text(notebook, "load").replace("b'", "'")


def test_gpt_write_and_finetune(tmp_path):
    folder = tmp_path / "sets"
    sets.tiny_shakespeare(folder)
    sets.glue(folder)
    notebook = run_notebook("gpt_write_and_finetune", tmp_path, TFDS_DATA_DIR=str(folder))
    first, last = numbers(notebook, "curve", r"([\d.]+) after \d+")
    assert last < 0.9 * first < 400  # as many tokens as there are
    assert are_drawn(notebook, "curve", "surprise", "temperatures", least=60)
    assert len(re.findall(r"^\[(.*?)\] ROMEO: I will", text(notebook, "writing"), re.M)) == 6
    assert text(notebook, "streaming").endswith("(10 pieces)\n")

    # Both modules in plain TensorFlow, here and in the notebook's own new Python.
    writer = tf.saved_model.load(str(tmp_path / "gpt/writer/model"))
    numbers_of = dict(max_new_tokens=10, temperature=0.0, top_k=0, top_p=1.0, seed=0)
    settings = {name: tf.constant(value) for name, value in numbers_of.items()}
    prompt = tf.constant(["ROMEO: I will"])
    written = writer.signatures["generate"](prompt=prompt, **settings)["text"][0]
    written = written.numpy().decode("utf-8", "replace")
    assert f"[temperature 0] {written}\n" in text(notebook, "writing")
    assert text(notebook, "load").startswith(written)
    judge = tf.saved_model.load(str(tmp_path / "gpt/judge"))
    lines = re.findall(r"(\w+) +([\d.]+)  (.*)", text(notebook, "compare"))
    found = judge({"text": tf.constant([phrase for *_, phrase in lines])})["label"]
    assert len(lines) == 3
    assert [label for label, *_ in lines] == found.numpy().astype(str).tolist()


def test_hub_tutorials_keras3(tmp_path):
    sets.glue(str(tmp_path / "tfds"))
    words = [*sets.GOOD, *sets.BAD, *sets.THINGS, *"a the is such this movie my back".split()]
    bert, elmo = tfnlp.load(toy_models.bert(tmp_path / "bert", words)), elmo_toy.tiny()
    pair = bert.export(str(tmp_path / "pair"), seq_length=16)
    hub.export_elmo(str(tmp_path / "elmo"), elmo)
    handles = dict(preprocess_handle=pair["preprocessor"], encoder_handle=pair["encoder"])
    handles["elmo_handle"] = str(tmp_path / "elmo")
    notebook = run_notebook(
        "hub_tutorials_keras3",
        tmp_path,
        parameters=dict(reviews="glue/sst2", **handles),
        TFDS_DATA_DIR=str(tmp_path / "tfds"),
    )
    for tag, epochs in (("training", 1), ("elmo", 2)):
        losses = re.search(r"'val_loss': \[(.*?)\]", text(notebook, tag))[1].split(", ")
        assert len(losses) == epochs and np.isfinite([float(x) for x in losses]).all()
    assert are_drawn(notebook, "curve")
    assert f"'elmo': (2, 6, {elmo.outputs[0].shape[-1]})" in text(notebook, "tokens")
    # The export, here in plain TensorFlow: what the new Python printed.
    module = tf.saved_model.load(str(tmp_path / "reviews/module"))
    lines = re.findall(r"^([\d.]+)  (.*)$", text(notebook, "load"), re.M)
    logits = module(tf.constant([line for _, line in lines])).numpy()[:, 0]
    assert len(lines) == 3
    np.testing.assert_allclose([float(x) for x, _ in lines], 1 / (1 + np.exp(-logits)), atol=6e-4)


def test_sentence_search(tmp_path):
    model = toy_models.bert(tmp_path / "bert", toy_models.book_words())
    notebook = run_notebook("sentence_search", tmp_path, parameters=dict(model=model))
    passages = (tmp_path / "search/passages.txt").read_text(encoding="utf-8").splitlines()
    assert numbers(notebook, "passages", r"(\d+) passages") == [len(passages)] == [120]
    assert are_drawn(notebook, "picture")
    # What was found for the first query: the largest products of vectors.
    encoder = tfnlp.load(model)
    query, *lines = text(notebook, "search").splitlines()
    scores = encoder.embed(passages) @ encoder.embed([query])[0]
    for row, line in zip(np.argsort(-scores, kind="stable")[:3], lines, strict=False):
        score, shown = re.fullmatch(r"  ([\d.-]+)  (.*)", line).groups()
        assert float(score) == pytest.approx(scores[row], abs=0.006)
        assert passages[row].startswith(shown)
    module = tf.saved_model.load(str(tmp_path / "search/module"))
    found = module.signatures["serving_default"](tf.constant(["a hidden door in the wall"]))
    said = re.findall(r"([\d.]+)  (.*)", text(notebook, "load"))
    want = found["scores"].numpy()[0]
    np.testing.assert_allclose([float(score) for score, _ in said], want, atol=1e-4)
    assert numbers(notebook, "training", r"found first ([\d.]+)") != []


def test_word_vectors_to_bert(tmp_path):
    notebook = run_notebook("word_vectors_to_bert", tmp_path)
    names = ("ELMo", "GPT", "BERT")
    for name in names:
        (bits,) = numbers(notebook, name.lower(), r"([\d.]+) bits .*; by frequency [\d.]+")
        assert 1 < bits < 12
    # One list by counting, two for each of the others.
    lists = [line.split()[0] for line in text(notebook, "neighbours").splitlines()]
    assert lists == ["counts", *(name for name in names for _ in range(2))]
    # GPT does not see what comes after a word, BERT does.
    ahead = dict(re.findall(r"(\w+) +looks ahead with (\d+)%", text(notebook, "attention")))
    assert int(ahead["GPT"]) == 0 and int(ahead["BERT"]) > 10
    assert are_drawn(notebook, "curves", "senses-picture", "mix")
    for tag, pictures in (("words", 1), ("attention", 2)):
        shown = [output.data for output in cell(notebook, tag).outputs if "data" in output]
        assert sum("application/vnd.plotly.v1+json" in data for data in shown) == pictures
