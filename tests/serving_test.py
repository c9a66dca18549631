"""Exports called as TensorFlow Serving calls them."""

import importlib.util

import numpy as np
import pytest
import tensorflow as tf

from tests.support import ROOT

pytestmark = pytest.mark.slow


class Toy(tf.Module):
    """Strings to a label and numbers, as a fine-tuned module, and a signature of two inputs."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def classify(self, text):
        size = tf.cast(tf.strings.length(text), "float32")
        return {"label": tf.strings.join([text, "!"]), "probabilities": size[:, None] / [10.0, 5.0]}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.string, name="tokens"),
            tf.TensorSpec([None], tf.int32, name="sequence_len"),
        ]
    )
    def tokens(self, tokens, sequence_len):
        return {"count": tf.shape(tokens)[1] + sequence_len}


@pytest.fixture(scope="module")
def rest(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("rest", ROOT / "examples" / "rest_predict.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder, toy = tmp_path_factory.mktemp("models") / "toy", Toy()
    signatures = {"serving_default": toy.classify, "tokens": toy.tokens}
    for version in ("2", "10"):
        tf.saved_model.save(toy, str(folder / version), signatures=signatures)
    (folder / "2" / "saved_model.pb").write_bytes(b"damaged")  # the last version is loaded
    module.loaded = module.Model(str(folder))
    return module


def test_rows_and_columns(rest):
    predict = rest.loaded.predict
    rows = predict({"instances": ["ab", "é"]})["predictions"]
    assert [row["label"] for row in rows] == ["ab!", "é!"]
    np.testing.assert_allclose([r["probabilities"] for r in rows], [[0.2, 0.4], [0.2, 0.4]])
    assert predict({"instances": [{"text": "ab"}]})["predictions"] == rows[:1]
    columns = predict({"inputs": {"text": ["ab", "é"]}})["outputs"]
    assert columns["label"] == ["ab!", "é!"] and np.shape(columns["probabilities"]) == (2, 2)
    assert predict({"inputs": ["ab", "é"]})["outputs"] == columns
    # One output is not wrapped in a dict.
    row = {"tokens": ["a", "b"], "sequence_len": 1}
    assert predict({"signature_name": "tokens", "instances": [row]}) == {"predictions": [3]}
    column = {"tokens": [["a", "b"]], "sequence_len": [1]}
    assert predict({"signature_name": "tokens", "inputs": column}) == {"outputs": [3]}
