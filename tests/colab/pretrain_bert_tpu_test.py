"""The notebook that pretrains a BERT, at toy size."""

import importlib.util
import json
import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  exported tokenizers have its operations

pytest.importorskip("nbclient")
pytest.importorskip("tensorflow_datasets")
from tests.colab import sets  # noqa: E402
from tests.colab.notebooks import is_drawn, numbers, pictures, run_notebook, text  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def guesses(folder, vocabulary, question):
    """The five likeliest tokens for the one mask, from the exported pair in plain TensorFlow."""
    preprocessor = tf.saved_model.load(f"{folder}/preprocessor")
    encoder = tf.saved_model.load(f"{folder}/encoder")
    parts = preprocessor.tokenize(tf.constant(question.split("[MASK]"))).merge_dims(1, 2)
    left, right = (part.numpy().tolist() for part in parts)
    ids = [[*left, vocabulary.index("[MASK]"), *right]]
    inputs = preprocessor.bert_pack_inputs([tf.ragged.constant(ids, dtype=tf.int32)])
    place = tf.constant([[1 + len(left)]])
    logits = encoder.mlm({**inputs, "masked_lm_positions": place})["mlm_logits"][0, 0]
    return [vocabulary[i] for i in np.argsort(-logits.numpy(), kind="stable")[:5]]


@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_bert_is_pretrained_pictured_and_exported(engine, tmp_path):
    sets.wikipedia(str(tmp_path / "tfds"))
    notebook = run_notebook(
        "pretrain_bert_tpu",
        tmp_path,
        KERAS_BACKEND=engine,
        TFDS_DATA_DIR=str(tmp_path / "tfds"),
    )
    assert "60 documents" in text(notebook, "corpus")

    # The plan is drawn where the TPU's compiler is installed.
    if importlib.util.find_spec("libtpu"):
        plan = json.loads((tmp_path / "plan.json").read_text())
        assert plan["verdict"] == "fits" and plan["length"] == 32
        assert 0 < plan["floor_seconds"] <= plan["expected_seconds"]
    else:
        assert text(notebook, "plan").startswith("no plan")
    assert f"CPU, {engine}, 1 replica" in text(notebook, "devices")
    first, last = numbers(notebook, "training", r"loss ([\d.]+)")
    assert last < first - 0.2
    assert numbers(notebook, "training", r"after +(\d+) steps") == [4, 40]

    hidden = re.search(r"hidden: (.*)", text(notebook, "pairs"))[1].split()
    assert len(hidden) == text(notebook, "pairs").count("[MASK]") or "[MASK]" in hidden

    for tag in ("curve", "speed", "after", "attention"):
        assert [is_drawn(picture) for picture in pictures(notebook, tag)] == [True]

    modules = tmp_path / "bert/modules"
    (assets,) = (modules / "preprocessor/assets").iterdir()
    vocabulary = assets.read_text(encoding="utf-8").rstrip("\n").split("\n")
    lines = re.findall(r"(.*\[MASK\].*) -> (.*)", text(notebook, "after"))
    assert len(lines) == 3
    for question, shown in lines:
        assert guesses(modules, vocabulary, question) == shown.split()
    assert text(notebook, "before") != text(notebook, "after")

    assert len(re.findall(r"^  [01]\.\d\d  \S", text(notebook, "load"), re.M)) == 4
    assert "31 of 31 weights have a gradient" in text(notebook, "load")
