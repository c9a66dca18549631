"""Layers in `.keras` files, and modules in archives."""

import shutil
import tarfile
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.hub.bag import IDS, WANT, Bag, functional
from tfnlp import hub


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "bag"
    tf.saved_model.save(Bag(), str(path))
    return path


def trained(path):
    layer = hub.Layer(path, trainable=True, freeze="scale", name="bag")
    model = functional(layer)
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    model.fit(IDS, np.zeros((2, 2)), epochs=1, batch_size=2, verbose=0)
    return model


def test_keras_file_round_trip(bag, tmp_path):
    model = trained(bag)
    assert np.abs(model(IDS) - WANT).max() > 0.01
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(IDS), model(IDS))
    assert [v.path for v in again.trainable_variables] == ["bag/rows"]
    model.save_weights(tmp_path / "model.weights.h5")
    fresh = functional(hub.Layer(bag, trainable=True, freeze="scale", name="bag"))
    fresh.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(fresh(IDS), model(IDS))
    cloned = keras.models.clone_model(model)
    cloned.set_weights(model.get_weights())
    np.testing.assert_array_equal(cloned(IDS), model(IDS))


def test_keras_file_whose_module_is_gone(bag, tmp_path):
    shutil.copytree(bag, tmp_path / "bag")
    trained(tmp_path / "bag").save(tmp_path / "model.keras")
    shutil.rmtree(tmp_path / "bag")
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/bag"):
        keras.saving.load_model(tmp_path / "model.keras")


def test_what_a_keras_file_cannot_hold(bag, tmp_path):
    module = tf.saved_model.load(str(bag))
    model = functional(hub.Layer(module, name="bag"))
    with pytest.raises(ValueError, match="layer bag cannot be saved, as it was made from a loaded"):
        model.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="load_options, which cannot be saved"):
        hub.Layer(bag, load_options=tf.saved_model.LoadOptions()).get_config()
    with pytest.raises(ValueError, match="arguments=.* is not JSON"):
        hub.Layer(bag, arguments={"x": tf.constant(1)}).get_config()


def test_a_keras_file_of_a_stranger_fetches_nothing(bag, tmp_path):
    trained(bag).save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as file:
        parts = {name: file.read(name) for name in file.namelist()}
    url = "https://example.org/bag"
    parts["config.json"] = parts["config.json"].replace(
        str(bag).encode(), url.encode()
    )
    with zipfile.ZipFile(tmp_path / "hostile.keras", "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    with pytest.raises(ValueError, match=f"asks for the SavedModel {url}.*safe_mode=False"):
        keras.saving.load_model(tmp_path / "hostile.keras")


def test_archives_are_handles(bag, tmp_path, monkeypatch):
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    with tarfile.open(tmp_path / "bag.tar.gz", "w:gz") as file:
        file.add(bag, ".")
    layer = hub.Layer(tmp_path / "bag.tar.gz", trainable=True)
    np.testing.assert_allclose(layer(IDS), WANT)
    assert layer.get_config()["handle"] == str(tmp_path / "bag.tar.gz")
