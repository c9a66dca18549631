"""Objects that programs of the documentation use without making them."""

import pathlib
import tarfile
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfnlp
from tests import docs_run
from tests.docs_files import provide
from tfnlp import models, training
from tfnlp.settings.options import option


def objects(page: str, folder: pathlib.Path, toys: pathlib.Path) -> dict[str, Any]:
    """Return the variables of a page, by their names.

    Args:
        page: its path in the repository.
        folder: where the page is run.
        toys: see `tests.docs_files.provide`.
    """
    found = {"tfnlp": tfnlp, "keras": keras, "np": np, "tf": tf, "training": training}
    found |= {"hub": tfnlp.hub, "option": option, "dataset": docs_run.dataset()}
    more = {"docs/keras_hub.md": _keras_hub, "docs/reuse.md": _reuse}.get(page)
    return found | (more(folder, toys) if more else {})


def _keras_hub(folder: pathlib.Path, toys: pathlib.Path) -> dict[str, Any]:
    keras_hub = pytest.importorskip("keras_hub")
    provide(["preset-folder"], folder, toys)
    classifier = keras_hub.models.BertTextClassifier
    return {
        "task": keras_hub.models.BertMaskedLM.from_preset("preset-folder"),
        "classifier": classifier.from_preset("preset-folder", num_classes=2),
    }


def _reuse(folder: pathlib.Path, toys: pathlib.Path) -> dict[str, Any]:
    """A BERT pair in `bert`, its encoder as an archive, and models."""
    run = tfnlp.load(toys / "bert")
    run.export("bert")
    with tarfile.open("bert_encoder.tar.gz", "w:gz") as archive:
        archive.add("bert/encoder", arcname=".")
    tokenizer = tf.saved_model.load("bert/preprocessor")
    ids = tokenizer(tf.constant(["the dog ran"]))
    # Of one length, as LiteRT wants it.
    inputs = {name: keras.Input(x.shape[1:], dtype="int32", name=name) for name, x in ids.items()}
    pooled = run.encoder(inputs)["pooled_output"]
    outputs = {"pooled": pooled, "probabilities": layers.Dense(3, activation="softmax")(pooled)}
    return {
        "dict_of_ids": ids,
        "tokenizer_module": tokenizer,
        "model": keras.Model(inputs, outputs),
        "mlm_model": models.bert_pretrainer(run.encoder),
        "task": _keras_hub(folder, toys)["classifier"],
    }
