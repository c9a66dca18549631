import keras
import numpy as np
import pytest

from tests.training.toy import two_replicas
from tfnlp import models
from tfnlp.data.labelled.batches import TaskBatches
from tfnlp.training.prediction import forward, predict, predictor

SIZES = [5, 2, 9, 3, 7, 3, 8, 2, 6, 4, 9]
LENGTHS = [3, 6, 10]


class Counting(keras.layers.Layer):
    """Identity that counts its calls, so its traces."""

    calls = 0
    supports_masking = True

    def call(self, x):
        self.calls += 1
        return x


def tiny_model():
    """All kinds of outputs on a BERT with dropout, which prediction must not apply."""
    sizes = dict(num_layers=1, hidden_size=8, num_heads=2, intermediate_size=16)
    encoder = models.bert(40, **sizes, max_positions=12, dropout=0.5, initializer_range=0.5)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in encoder.input}
    found = encoder(inputs)
    hidden = Counting(name="counting")(found["sequence_output"])
    outputs = {
        "class_logits": keras.layers.Dense(3)(found["pooled_output"]),
        "score": keras.layers.Dense(1)(found["pooled_output"])[:, 0],
        "tag_logits": keras.layers.Dense(4)(hidden),
        "start_logits": keras.layers.Dense(1)(hidden)[..., 0],
        "sequence_output": hidden,
    }
    return keras.Model(inputs, outputs)


def examples():
    random = np.random.default_rng(2)
    ids = [random.integers(1, 40, size) for size in SIZES]
    return {
        "input_word_ids": ids,
        "input_mask": [np.ones_like(part) for part in ids],
        "input_type_ids": [np.arange(len(part)) // 3 % 2 for part in ids],
    }


def batches(lengths=LENGTHS, **arguments):
    fixed = {"labels": np.zeros(len(SIZES), int)}
    return TaskBatches(examples(), fixed, batch_size=3, lengths=lengths, **arguments)


def one_by_one(model):
    """Outputs of each example alone, without padding."""
    rows = [
        model({k: v[n][None] for k, v in examples().items()}, training=False)
        for n in range(len(SIZES))
    ]
    return {name: [row[name][0].numpy() for row in rows] for name in rows[0]}


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [LENGTHS, None])
def test_predictions_are_those_of_each_example_alone(lengths):
    model = tiny_model()
    want = one_by_one(model)
    found = predict(model, batches(lengths))
    assert set(found) == {"class_logits", "score", "tag_logits", "start_logits"}
    for name in ("class_logits", "score"):
        assert isinstance(found[name], np.ndarray)
        np.testing.assert_allclose(found[name], want[name], atol=1e-5)
    for name in ("tag_logits", "start_logits"):
        assert len(found[name]) == len(SIZES)
        for size, value, alone in zip(SIZES, found[name], want[name], strict=True):
            assert size <= len(value) and len(value) in (lengths or [9])
            np.testing.assert_allclose(value[:size], alone, atol=1e-5)


@pytest.mark.slow
def test_one_trace_serves_all_lengths_and_later_weights():
    model = tiny_model()
    counting = model.get_layer("counting")
    model_predicts = predictor(model, ["class_logits"])
    calls = counting.calls
    before = model_predicts(batches())["class_logits"]
    shapes = {batch["input_mask"].shape for batch, _ in batches().by_tokens()}
    assert len(shapes) == 2
    np.testing.assert_array_equal(model_predicts(batches())["class_logits"], before)
    for variable in model.trainable_variables:
        variable.assign(variable * 1.5)
    after = model_predicts(batches())["class_logits"]
    assert counting.calls == calls + 1
    assert np.abs(after - before).max() > 0.1
    padded = predict(model, batches(pad_all=True))["class_logits"]
    np.testing.assert_allclose(after, padded, atol=1e-5)


@pytest.mark.slow
def test_weights_of_bfloat16_are_cast_once_for_all_batches():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = tiny_model()
    finally:
        keras.config.set_dtype_policy("float32")
    keep = keras.layers.Dense(2, dtype="float32", name="keep")  # reads its weights as they are
    outputs = {**model.output, "wide": keep(model.output["class_logits"])}
    model = keras.Model(model.input, outputs)
    call = forward(model, ["class_logits", "wide"])
    narrow = {v.path for v, _ in call._narrow}
    assert any("intermediate/kernel" in path for path in narrow)
    assert not any("keep" in path or "norm" in path or "embedding" in path for path in narrow)
    (batch, _), *_ = batches().by_tokens()
    weights = call.weights()
    for given in (None, weights):
        found = call(batch, given)
        want = model({name: batch[name] for name in model.input}, training=False)
        for name, value in found.items():
            np.testing.assert_allclose(
                value.astype("float32"), np.asarray(want[name], "float32"), rtol=0.02, atol=0.02
            )


def test_weights_that_were_cast_before_are_those_that_count():
    dense = keras.layers.Dense(3, kernel_initializer="ones", dtype="mixed_bfloat16", name="dense")
    x = keras.Input((2,), name="x")
    call = forward(keras.Model({"x": x}, {"y": dense(x)}), ["y"])
    batch = {"x": np.array([[1.0, 2.0], [-4.0, 0.5]], "float32")}
    before, weights = call(batch)["y"], call.weights()
    np.testing.assert_array_equal(before.astype("float32"), [[3.0] * 3, [-3.5] * 3])
    dense.kernel.assign(dense.kernel * 2)
    np.testing.assert_array_equal(call(batch, weights)["y"], before)
    np.testing.assert_array_equal(call(batch)["y"], before * 2)


@pytest.mark.slow
def test_a_mirrored_model_predicts_too():
    with two_replicas().scope():
        model = tiny_model()
    plain = tiny_model()
    plain.set_weights(model.get_weights())
    want = one_by_one(plain)["score"]
    np.testing.assert_allclose(predict(model, batches(), ["score"])["score"], want, atol=1e-5)
