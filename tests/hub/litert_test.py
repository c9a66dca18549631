import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfnlp import hub

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated"),
]


def run(path, **inputs):
    """What a LiteRT file's signature gives."""
    runner = tf.lite.Interpreter(model_path=str(path)).get_signature_runner("serving_default")
    return runner(**inputs)


def user_model():
    x = keras.Input((6,), name="x")
    hidden = keras.layers.Dense(64, "relu")(keras.layers.BatchNormalization()(x))
    return keras.Model(x, keras.layers.Dense(3, "softmax", name="classes")(hidden))


def test_a_model_of_somebody(tmp_path, capfd):
    model, path = user_model(), tmp_path / "lite" / "model.tflite"
    hub.export(model, tmp_path / "module", litert=path)
    assert capfd.readouterr() == ("", "")
    for rows in (1, 3):
        x = np.random.default_rng(rows).normal(size=(rows, 6)).astype("float32")
        found = run(path, x=x)
        assert list(found) == ["classes"]
        np.testing.assert_allclose(found["classes"], model(x), atol=1e-6)
    assert os.listdir(tmp_path / "lite") == ["model.tflite"]
    # Weights in fewer bits.
    sizes = [path.stat().st_size]
    for kind in ("bfloat16", "int8"):
        hub.export(model, tmp_path / "module", litert=path, weights=kind, overwrite=True)
        sizes.append(path.stat().st_size)
        np.testing.assert_allclose(run(path, x=x)["classes"], model(x), atol=0.02)
    assert sizes[0] > sizes[1]


def test_the_served_object(tmp_path):
    model, other = user_model(), user_model()
    signatures = {"serving_default": "other"}
    path = tmp_path / "model.tflite"
    hub.export(model, tmp_path / "m", signatures, objects={"other": other}, litert=path)
    x = np.ones((2, 6), "float32")
    np.testing.assert_allclose(run(path, x=x)["classes"], other(x), atol=1e-6)


def test_ops_that_are_not_there_are_named(tmp_path, capfd):
    text = keras.Input((), dtype="string")
    split = keras.layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=4)
    model = keras.Model(text, split(text), name="words")
    with pytest.raises(ValueError, match="StringSplitV2"):
        hub.export(model, tmp_path / "module", litert=tmp_path / "x.tflite")
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr() == ("", "")  # nothing of the converter's


def test_nothing_is_left_where_the_module_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="can.t be written"):
        hub.export(user_model(), tmp_path / "file" / "m", litert=tmp_path / "lite" / "x.tflite")
    with pytest.raises(OSError, match=" can.t be written"):
        hub.export(user_model(), tmp_path / "m", litert=tmp_path / "file" / "x.tflite")
    assert sorted(os.listdir(tmp_path)) == ["file", "lite"] and not os.listdir(tmp_path / "lite")
