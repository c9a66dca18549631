import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfnlp import hub
from tfnlp.files import folder_size
from tfnlp.hub.saving import compact
from tfnlp.hub.saving.compact import probe_batch

pytestmark = pytest.mark.slow

ROWS, H = 300, 64


def classifier():
    """A table whose rows differ in size, a kernel whose columns do, an LSTM, dropout, averages."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    table = keras.layers.Embedding(ROWS, H, name="table")
    vectors = table(ids)
    hidden = keras.layers.LSTM(H, name="lstm")(vectors)
    hidden = keras.layers.Dropout(0.5)(keras.layers.BatchNormalization()(hidden))
    dense = keras.layers.Dense(H, name="dense", bias_initializer="ones")
    hidden = dense(hidden)
    narrow = keras.layers.Dense(1, name="narrow")(hidden)
    model = keras.Model(ids, {"hidden": hidden, "narrow": narrow}, name="classifier")
    rng = np.random.default_rng(0)
    table.embeddings.assign(rng.normal(size=(ROWS, H)) * np.geomspace(0.01, 1, ROWS)[:, None])
    kernel = rng.normal(size=(H, H)) * np.geomspace(0.01, 1, H)
    kernel[:, 3] = 0  # nothing to divide by
    dense.kernel.assign(kernel)
    return model


def nearest_bfloat16(x):
    """Round to nearest even on the bits of float32."""
    bits = np.asarray(x, "float32").view("uint32").astype("uint64")
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16
    return bits.astype("uint32").view("float32")


def as_int8(x, per_row):
    """`(integers, scales)` of a matrix, number by number."""
    integers, scales = np.zeros(x.shape, "int8"), []
    vectors = x if per_row else x.T
    for i, vector in enumerate(vectors):
        top = max(abs(float(v)) for v in vector)
        scale = np.float32(top) / np.float32(127) if top else np.float32(1)
        scales.append(scale)
        for j, value in enumerate(vector):
            integers[(i, j) if per_row else (j, i)] = round(float(np.float32(value) / scale))
    return integers, np.array(scales, "float32").reshape((-1, 1) if per_row else (1, -1))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compact")
    model = classifier()
    twin = keras.Model(model.input, {"twice": 2 * model.output["hidden"]})
    hub.export(model, folder / "float32", objects={"twin": twin})
    for kind in compact.KINDS:
        hub.export(model, folder / kind, weights=kind, objects={"twin": twin})
    return folder, model, twin


def ids(seed=0):
    return tf.constant(np.random.default_rng(seed).integers(0, ROWS, (3, 5)), "int32")


def variables(module):
    return {v.name.split(":")[0]: v for v in module.variables}


def test_int8_is_rounded_per_row_of_tables_and_per_column_of_kernels(exported):
    folder, model, _ = exported
    stored = variables(tf.saved_model.load(str(folder / "int8")))
    expected = {"table/embeddings": True, "dense/kernel": False}
    for path, per_row in expected.items():
        values = np.array(next(v for v in model.variables if v.path == path))
        integers, scales = as_int8(values, per_row)
        assert stored[path].dtype == tf.int8
        np.testing.assert_array_equal(stored[f"{path}_scale"], scales)
        np.testing.assert_array_equal(stored[path], integers)
    assert compact.quantized(np.ones((2, 3, 4)))[1].shape in ((1, 1, 4), (2, 1, 1))
    assert compact.quantized(np.ones((3, 2))) is None  # the scales would be all that is won


@pytest.mark.parametrize("kind", compact.KINDS)
def test_outputs_are_those_of_the_rounded_weights(exported, kind):
    folder, model, twin = exported
    module = tf.saved_model.load(str(folder / kind))
    rounded = keras.models.clone_model(model)
    for new, old in zip(rounded.variables, model.variables, strict=True):
        values = np.array(old)
        if values.ndim == 2 and kind == "bfloat16":
            values = nearest_bfloat16(values)
        elif values.ndim == 2:
            found = [np.prod(np.broadcast_arrays(*as_int8(values, x)), 0, dtype="float32")
                     for x in (False, True)]  # fmt: skip
            if old.path == "narrow/kernel":
                found = found[:1]  # a scale for each row would be as large as the column
            values = min(found, key=lambda x: np.square(x - np.array(old)).sum())
        new.assign(values)
    want, got = rounded(ids()), module(ids())
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-5)
    twice = module.twin(ids())["twice"]
    np.testing.assert_allclose(twice, 2 * want["hidden"], rtol=1e-4, atol=1e-5)
    # It does differ from the floats.
    assert np.abs(got["hidden"] - model(ids())["hidden"]).max() > 1e-4
    # It is for inference.
    assert not module.trainable_variables and not module.regularization_losses
    np.testing.assert_array_equal(module(ids(), training=True)["hidden"], got["hidden"])


@pytest.mark.parametrize("kind, share", [("bfloat16", 0.5), ("int8", 0.27)])
def test_file_is_smaller_and_stays_so(exported, kind, share, tmp_path):
    folder, model, twin = exported
    data = folder_size(folder / kind / "variables")
    # Of the weights, those of the model's copy `twin` being the same.
    assert data < share * folder_size(folder / "float32" / "variables") + 4096
    module = tf.saved_model.load(str(folder / kind))
    module(ids())
    tf.saved_model.save(module, str(tmp_path / "again"))
    assert folder_size(tmp_path / "again" / "variables") < 1.05 * data
    again = tf.saved_model.load(str(tmp_path / "again"))
    np.testing.assert_array_equal(again(ids())["hidden"], module(ids())["hidden"])


def test_report(exported):
    folder, model, twin = exported
    found = compact.CompactWeights([model, twin], "int8").report(folder / "int8", model)
    assert found.after == folder_size(folder / "int8")
    real = folder_size(folder / "float32")
    assert abs(found.before - real) < 0.1 * real
    inputs = probe_batch(model)
    want = model(inputs)
    got = tf.saved_model.load(str(folder / "int8"))(inputs)
    difference = max(np.abs(got[name] - want[name]).max() for name in want)
    np.testing.assert_allclose(found.difference, difference, rtol=1e-3)
    np.testing.assert_allclose(found.largest, max(np.abs(x).max() for x in want.values()))


def test_a_loaded_saved_model_cannot_be_compacted(tmp_path, exported):
    layer = hub.Layer(str(exported[0] / "float32"), name="from_afar")
    x = keras.Input((None,), dtype="int32")
    model = keras.Model(x, keras.layers.Dense(2)(layer(x)["hidden"]))
    with pytest.raises(ValueError, match="weights='int8'"):
        hub.export(model, tmp_path / "m", weights="int8")
    assert os.listdir(tmp_path) == []
