"""Modules of other people as backbones."""

import numpy as np
import pytest
import tensorflow as tf

from tfnlp import hub
from tfnlp.hub.loading.encoder import max_positions


class Foreign(tf.__internal__.tracking.AutoTrackable):
    """As Keras 2 writes one: names that repeat and hold odd characters, `mask`, tuples."""

    def __init__(self, trains=True, variables=True, flags=(False, True)):
        super().__init__()
        rows = np.arange(12, dtype="float32").reshape(6, 2)
        table = tf.Variable(rows, name="word_embeddings/e")
        kernels = [tf.Variable(tf.eye(2), name="layer>0/bias") for _ in range(2)]
        count = tf.Variable(3, dtype="int64", trainable=False, name="count")
        self.all = [table, *kernels, count]
        if variables:
            self.variables = list(self.all)
            self.trainable_variables = self.all[:2] if trains else []
        spec = {"input_word_ids": tf.TensorSpec([None, 4], "int32", name="input_word_ids")}
        for flag in flags:
            self.__call__.get_concrete_function(spec, flag, None)

    @tf.function
    def __call__(self, inputs, training=False, mask=None):
        x = tf.gather(self.all[0], inputs["input_word_ids"]) @ self.all[1] @ self.all[2]
        return {"sequence_output": x + float(training), "encoder_outputs": (x, x)}


def test_other_peoples_modules(tmp_path):
    tf.saved_model.save(Foreign(), str(tmp_path / "encoder"))
    encoder = hub.saved_encoder(tmp_path)
    layer = encoder.get_layer("saved_model")
    paths = {v.path: v.trainable for v in layer.variables}
    assert paths == {
        "word_embeddings/e": True,
        "layer_0/bias": True,
        "layer_0_1/bias": False,  # ends as the other one, for weight decay
        "count": False,
    }
    assert max_positions(layer) is None
    ids = np.array([[5, 0, 1, 1]], "int64")
    outputs = encoder({"input_word_ids": ids})
    want = np.arange(12.0).reshape(6, 2)[ids]
    np.testing.assert_array_equal(outputs["sequence_output"], want)
    assert len(outputs["encoder_outputs"]) == 2
    outputs = encoder({"input_word_ids": ids}, training=True)
    np.testing.assert_array_equal(outputs["sequence_output"], want + 1)
    assert encoder.output["sequence_output"].shape == (None, 4, 2)
    with pytest.raises(ValueError, match="seq_length=8, but .* takes length 4 alone"):
        hub.saved_encoder(tmp_path, seq_length=8)


@pytest.mark.parametrize(
    "arguments, why",
    [
        (dict(trains=False), "lists no trainable_variables"),
        (dict(variables=False), "lists no trainable_variables"),
        (dict(flags=(False,)), "cannot be called with training=True"),
    ],
)
def test_modules_that_cannot_train_say_so(tmp_path, arguments, why):
    tf.saved_model.save(Foreign(**arguments), str(tmp_path / "encoder"))
    with pytest.raises(ValueError, match=why):
        hub.saved_encoder(tmp_path)
    frozen = hub.saved_encoder(tmp_path, trainable=False)
    ids = np.zeros((1, 4), "int32")
    for flag in (False, True):
        outputs = frozen({"input_word_ids": ids}, training=flag)
        np.testing.assert_array_equal(outputs["sequence_output"][0, 0], [0, 1])
