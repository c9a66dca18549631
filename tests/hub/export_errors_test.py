"""What `tfnlp.hub.export` refuses, and that it does so before it does anything."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.hub import bert_toy
from tests.hub.export_test import CLOSE, PREPROCESSOR
from tfnlp import hub

pytestmark = pytest.mark.timeout(900)  # exports trace much; a busy machine takes its time


def dense(inputs=None, name="dense_model"):
    x = keras.Input((3,)) if inputs is None else inputs
    return keras.Model(x, {"y": keras.layers.Dense(2)(x)}, name=name)


def of_ids(length=None, rows=5):
    names = ("input_word_ids", "input_mask", "input_type_ids")
    inputs = {n: keras.Input((length,), dtype="int32", name=n) for n in names}
    return keras.Model(
        inputs, keras.layers.Embedding(rows, 2)(inputs["input_word_ids"]), name="of_ids"
    )


class Subclassed(keras.Model):
    def call(self, x):
        return x


ERRORS = {
    "subclassed": (lambda: Subclassed(name="mine"), {}, "model mine"),
    "layer": (lambda: keras.layers.Dense(2), {}, "Dense"),
    "ragged": (lambda: dense(keras.Input((3,), ragged=True, name="r")), {}, "ragged tensor, r"),
    "output": (dense, dict(signatures={"s": ["z"]}), "signatures['s']"),
    "default": (dense, dict(default="z"), "default='z'"),
    "keyword": (dense, dict(objects={"class": None}), "objects: 'class'"),
    "pair": (dense, dict(pair=True), "pair=True"),
    "preprocessor": (dense, dict(preprocessor=len), "preprocessor"),
    "no text": (
        dense, dict(preprocessor=keras.layers.TextVectorization(vocabulary=["a"])), "preprocessor"
    ),
    "vocabulary": (of_ids, dict(preprocessor=PREPROCESSOR), "vocabulary of 13 tokens"),
    "length": (
        lambda: of_ids(6, len(bert_toy.WORDS)), dict(preprocessor=PREPROCESSOR), "[?, 8]"
    ),
}  # fmt: skip


OTHERS = ("saved_model.pb", "config.json", "index.json", "model/saved_model.pb", "1/saved_model.pb")


@pytest.mark.parametrize("held", OTHERS)
def test_a_pair_is_not_added_to_another_model(tmp_path, held):
    """Which `load` would take for what it is not."""
    folder = tmp_path / "model"
    (folder / held).parent.mkdir(parents=True, exist_ok=True)
    (folder / held).write_bytes(b"")
    (folder / "README.md").write_text("")
    said = f"holds {held.split('/')[0]}, a part of another model"
    for overwrite in (False, True):
        with pytest.raises(FileExistsError, match=said):
            model = of_ids(8, len(bert_toy.WORDS))
            hub.export(model, folder, preprocessor=PREPROCESSOR, pair=True, overwrite=overwrite)
    assert sorted(os.listdir(folder)) == sorted(["README.md", held.split("/")[0]])


def test_an_empty_path_is_not_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for write in (hub.export, lambda model, path: hub.save(tf.Module(), path)):
        with pytest.raises(ValueError, match="`directory` is empty"):
            write(dense(), "")
    assert os.listdir(tmp_path) == []


def test_errors_come_in_a_line_and_early(tmp_path):
    for model, keywords, said in ERRORS.values():
        with pytest.raises(ValueError) as error:
            hub.export(model(), tmp_path / "new", **keywords)
        assert said in str(error.value) and "\n" not in str(error.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_what_exists_is_not_written_over_before_anything_else(tmp_path, monkeypatch):
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "notes.txt").write_text("mine")
    (tmp_path / "x.tflite").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(hub.KerasModule, "__init__", None)  # would fail
        for directory in ("module", "module/notes.txt"):
            with pytest.raises(FileExistsError, match="exists"):
                hub.export(dense(), tmp_path / directory, overwrite=True)
        with pytest.raises(FileExistsError, match="x.tflite exists"):
            hub.export(dense(), tmp_path / "new", litert=tmp_path / "x.tflite")
    path, model = hub.export(dense(), tmp_path / "other"), dense()
    with pytest.raises(FileExistsError):
        hub.export(model, path)
    hub.export(model, path, overwrite=True)
    x = tf.ones((1, 3))
    np.testing.assert_allclose(tf.saved_model.load(path)(x)["y"], model(x)["y"], **CLOSE)
