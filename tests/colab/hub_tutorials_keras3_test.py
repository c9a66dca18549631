"""The notebook with TF-Hub's tutorials in Keras 3, at toy size."""

import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  exported tokenizers have its operations

import tfnlp
from tfnlp import hub

pytest.importorskip("nbclient")
pytest.importorskip("tensorflow_datasets")
from tests.colab import sets, toy_models  # noqa: E402
from tests.colab.notebooks import is_drawn, pictures, run_notebook, text  # noqa: E402
from tests.hub import elmo_toy  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_the_tutorials_run_on_exported_modules(tmp_path):
    sets.glue(str(tmp_path / "tfds"))
    words = [*sets.GOOD, *sets.BAD, *sets.THINGS, *"a the is such this movie my back".split()]
    pair = tfnlp.load(toy_models.bert(tmp_path / "bert", words)).export(
        str(tmp_path / "pair"), seq_length=16
    )
    elmo = elmo_toy.tiny()
    hub.export_elmo(str(tmp_path / "elmo"), elmo)
    notebook = run_notebook(
        "hub_tutorials_keras3",
        tmp_path,
        parameters=dict(
            preprocess_handle=pair["preprocessor"],
            encoder_handle=pair["encoder"],
            elmo_handle=str(tmp_path / "elmo"),
            reviews="glue/sst2",
        ),
        TFDS_DATA_DIR=str(tmp_path / "tfds"),
    )
    assert "'train': 1200" in text(notebook, "data") and "64 to train on" in text(notebook, "data")
    for tag, epochs in (("training", 1), ("elmo", 2)):
        losses = re.search(r"'val_loss': \[(.*?)\]", text(notebook, tag))[1].split(", ")
        assert len(losses) == epochs and np.isfinite([float(x) for x in losses]).all()
    assert [is_drawn(picture) for picture in pictures(notebook, "curve")] == [True]

    width = elmo.outputs[0].shape[-1]
    assert f"'elmo': (2, 6, {width})" in text(notebook, "tokens")

    # The export, here in plain TensorFlow: what the new Python printed.
    module = tf.saved_model.load(str(tmp_path / "reviews/module"))
    lines = re.findall(r"^([\d.]+)  (.*)$", text(notebook, "load"), re.M)
    logits = module(tf.constant([line for _, line in lines])).numpy()[:, 0]
    assert len(lines) == 3
    np.testing.assert_allclose([float(x) for x, _ in lines], 1 / (1 + np.exp(-logits)), atol=6e-4)
    assert float(re.search(r"within ([\d.e+-]+)", text(notebook, "export"))[1]) < 1e-4
