"""The notebook that fine-tunes a published BERT on GLUE, at toy size."""

import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  exported tokenizers have its operations

pytest.importorskip("nbclient")
pytest.importorskip("tensorflow_datasets")
from tests.colab import sets, toy_models  # noqa: E402
from tests.colab.notebooks import is_drawn, numbers, pictures, run_notebook, text  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_a_model_is_fine_tuned_reported_and_exported(tmp_path):
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
    assert "CPU, jax." in text(notebook, "devices")
    assert [is_drawn(picture) for picture in pictures(notebook, "curve")] == [True]
    page = (tmp_path / "glue/report/index.html").read_text(encoding="utf-8")
    assert "positive" in page

    # The module, in plain TensorFlow, has the accuracy that was printed.
    import tensorflow_datasets as tfds

    builder = tfds.builder("glue/sst2", data_dir=str(tmp_path / "tfds"))
    rows = list(tfds.as_numpy(builder.as_dataset("validation")))
    names = builder.info.features["label"].names
    module = tf.saved_model.load(str(tmp_path / "glue/module"))
    sentences = tf.constant([row["sentence"] for row in rows])
    found = module.signatures["serving_default"](text=sentences)
    right = [
        names[row["label"]] == label.decode()
        for row, label in zip(rows, found["label"].numpy(), strict=True)
    ]
    (printed,) = numbers(notebook, "baseline", r"accuracy ([\d.]+)")
    (always,) = numbers(notebook, "baseline", r"label ([\d.]+)")
    assert printed == pytest.approx(np.mean(right), abs=1e-3)
    counts = np.bincount([row["label"] for row in rows])
    assert always == pytest.approx(counts.max() / len(rows), abs=1e-3)

    # The new Python said what the notebook's own predictions say.
    first = re.match(r"(\w+) +([\d.]+)", text(notebook, "predict"))
    assert f"label ['{first[1]}']" in text(notebook, "load").replace("b'", "'")
