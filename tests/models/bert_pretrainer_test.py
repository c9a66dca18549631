import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers import reference
from tests.models.bert_reference import CLOSE, SMALL, B, P, T, V, batch, bert_reference, randomized
from tfnlp.models import bert, bert_pretrainer


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_pretraining_formula(activation):
    rng = np.random.default_rng(1)
    model = bert_pretrainer(bert(**SMALL), activation=activation, norm_epsilon=0.01)
    randomized(model, rng)
    inputs = batch(rng, positions=True)
    layers, pooled = bert_reference(inputs, model)
    w = {v.path: np.asarray(v.numpy(), "float64") for v in model.weights}
    hidden = reference.masked_lm_head(
        layers[-1],
        inputs["masked_lm_positions"],
        reference.inside(w, "masked_lm_head"),
        activation,
        0.01,
    )
    logits = hidden @ w["token_embedding/embeddings"].T + w["masked_lm_bias/bias"]
    outputs = model(inputs)
    assert outputs["mlm_logits"].shape == (B, P, V)
    np.testing.assert_allclose(outputs["mlm_logits"], logits, rtol=1e-3, atol=1e-3)
    sentence = reference.dense(pooled, reference.inside(w, "next_sentence_head/dense"))
    np.testing.assert_allclose(outputs["next_sentence_logits"], sentence, **CLOSE)


def test_padding_changes_nothing():
    rng = np.random.default_rng(3)
    model = randomized(bert_pretrainer(bert(**SMALL)), rng)
    inputs = batch(rng, positions=True)
    expected = model(inputs)
    real = inputs["input_mask"].astype(bool)

    def check(got):
        for name in ("pooled_output", "mlm_logits", "next_sentence_logits"):
            np.testing.assert_allclose(got[name], expected[name], **CLOSE)
        for g, e in zip(got["encoder_outputs"], expected["encoder_outputs"], strict=True):
            np.testing.assert_allclose(np.asarray(g)[:, :T][real], np.asarray(e)[real], **CLOSE)

    noise = {"input_word_ids": rng.integers(0, V, (B, T)), "input_type_ids": rng.integers(0, 2, T)}
    check(model({**inputs, **{k: np.where(real, inputs[k], v) for k, v in noise.items()}}))
    longer = {k: np.pad(v, [(0, 0), (0, 3)]) for k, v in inputs.items()}
    check(model({**longer, "masked_lm_positions": inputs["masked_lm_positions"]}))
    # And one sequence alone, with no padding at all, is what it is in the batch.
    alone = model(
        {k: v[1:2] if k == "masked_lm_positions" else v[1:2, :5] for k, v in inputs.items()}
    )
    np.testing.assert_allclose(alone["mlm_logits"][0], expected["mlm_logits"][1], **CLOSE)
    np.testing.assert_allclose(
        alone["sequence_output"][0], expected["sequence_output"][1, :5], **CLOSE
    )


def test_order_of_the_batch_does_not_matter():
    rng = np.random.default_rng(4)
    model = randomized(bert_pretrainer(bert(**SMALL)), rng)
    inputs, order = batch(rng, positions=True), [2, 0, 3, 1]
    expected, got = model(inputs), model({k: v[order] for k, v in inputs.items()})
    for name in ("pooled_output", "mlm_logits", "next_sentence_logits"):
        np.testing.assert_allclose(got[name], np.asarray(expected[name])[order], **CLOSE)


def test_every_input_matters():
    rng = np.random.default_rng(5)
    model = randomized(bert_pretrainer(bert(**SMALL)), rng)
    inputs = batch(rng, positions=True)
    outputs = model(inputs)
    for name in inputs:
        other = np.roll(inputs[name], 1, axis=0)
        moved = model({**inputs, name: other})["mlm_logits"] - outputs["mlm_logits"]
        assert np.abs(moved).max() > 1e-2, name


def test_pretrainer_shares_the_encoders_weights():
    encoder = bert(**SMALL)
    model = bert_pretrainer(encoder)
    mine = {id(v) for v in model.trainable_variables}
    assert {id(v) for v in encoder.trainable_variables} < mine
    new = [v.path for v in model.trainable_variables]
    new = sorted(set(new) - {v.path for v in encoder.trainable_variables})
    assert new == [
        "masked_lm_bias/bias",
        "masked_lm_head/dense/bias",
        "masked_lm_head/dense/kernel",
        "masked_lm_head/norm/beta",
        "masked_lm_head/norm/gamma",
        "next_sentence_head/dense/bias",
        "next_sentence_head/dense/kernel",
    ]
    rng = np.random.default_rng(6)
    inputs = batch(rng, positions=True)
    before = np.asarray(model(inputs)["mlm_logits"])
    randomized(encoder, rng)
    assert np.abs(model(inputs)["mlm_logits"] - before).max() > 1e-2


def test_initial_weights():
    model = bert_pretrainer(
        bert(500, num_layers=2, hidden_size=64, num_heads=2, intermediate_size=128)
    )
    w = {v.path: v.numpy() for v in model.trainable_variables}
    drawn = {k: v for k, v in w.items() if k.endswith(("kernel", "embeddings"))}
    assert len(drawn) == 3 + 2 * 4 + 3
    for name, value in drawn.items():
        assert np.abs(value).max() <= 0.04 + 1e-7, name  # cut off at two standard deviations
        if value.size > 1000:
            # A normal of 0.02 cut off at 2 sigma has a standard deviation of 0.880 * 0.02.
            np.testing.assert_allclose(value.std(), 0.0176, rtol=0.05, err_msg=name)
            assert abs(value.mean()) < 5 * 0.0176 / value.size**0.5, name
    for name, value in w.items():
        if name not in drawn:
            assert (value == (1 if name.endswith("gamma") else 0)).all(), name
    seen = [(k, v) for k, v in drawn.items() if v.size > 1000]
    for i, (name, value) in enumerate(seen):
        for other_name, other in seen[i + 1 :]:
            size = min(value.size, other.size)
            same = value.ravel()[:size] == other.ravel()[:size]
            assert same.mean() < 0.01, (name, other_name)


def training_step(model, inputs):
    """Outputs, and gradients of cross entropy as dense tensors."""
    with tf.GradientTape() as tape:
        outputs = model(inputs)
        targets = inputs["masked_lm_positions"]  # any ids below V will do
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(targets, outputs["mlm_logits"])
        )
    variables = [
        v for v in model.trainable_variables if not v.path.startswith(("pooler", "next_sentence"))
    ]
    gradients = tape.gradient(loss, [v.value for v in variables])
    return outputs["mlm_logits"], [tf.convert_to_tensor(g) for g in gradients]


@pytest.mark.slow
def test_xla_equals_eager():
    rng = np.random.default_rng(9)
    model = randomized(bert_pretrainer(bert(**{**SMALL, "num_layers": 2})), rng)
    inputs = batch(rng, positions=True)
    logits, gradients = tf.function(training_step, jit_compile=True)(model, inputs)
    expected_logits, expected_gradients = training_step(model, inputs)
    np.testing.assert_allclose(logits, expected_logits, **CLOSE)
    assert len(gradients) == len(expected_gradients) > 30
    for got, expected in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_compile_fit_save_load(tmp_path):
    rng = np.random.default_rng(10)
    model = bert_pretrainer(bert(**SMALL, dropout=0.0, attention_dropout=0.0))
    inputs = batch(rng, positions=True)
    targets = {
        "mlm_logits": np.take_along_axis(
            rng.integers(0, V, (B, T)), inputs["masked_lm_positions"], axis=1
        ),
        "next_sentence_logits": np.array([0, 1, 1, 0]),
    }
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss={name: loss for name in targets})
    untrained = model.evaluate(inputs, targets, batch_size=B, verbose=0)[0]
    assert untrained == pytest.approx(np.log(V) + np.log(2), rel=0.1)  # uniform
    many = [{n: np.concatenate([x] * 45) for n, x in d.items()} for d in (inputs, targets)]
    model.fit(*many, batch_size=B, epochs=1, shuffle=False, verbose=0)
    assert model.evaluate(inputs, targets, batch_size=B, verbose=0)[0] < 0.2

    model.save(tmp_path / "pretrainer.keras")
    loaded = keras.models.load_model(tmp_path / "pretrainer.keras")
    model.save_weights(tmp_path / "only.weights.h5")
    fresh = bert_pretrainer(bert(**SMALL))
    fresh.load_weights(tmp_path / "only.weights.h5")
    np.testing.assert_allclose(fresh(inputs)["mlm_logits"], model(inputs)["mlm_logits"], atol=1e-5)
    assert loaded.evaluate(inputs, targets, verbose=0) == pytest.approx(
        model.evaluate(inputs, targets, verbose=0), rel=1e-4
    )
    again = loaded.fit(inputs, targets, batch_size=B, epochs=1, verbose=0).history["loss"][0]
    assert again < 0.2  # training goes on where it stopped
