import keras
import numpy as np
import pytest

from tests.layers.reference import randomize
from tests.models.bert_reference import SMALL, B, T, V, bert_reference
from tfnlp.models import bert, bert_for_tasks, bert_task

H, K, C = 16, 3, 4
KINDS = {"class": (K, 1), "score": (None, 1), "choice": (None, C), "tag": (K, 1), "span": (None, 1)}
kinds = pytest.mark.parametrize("output", KINDS)


def inputs(output, seed=0):
    """Examples of all lengths; [B, T], or [B, C, T] for "choice"."""
    rng = np.random.default_rng(seed)
    shape = (B, C) if output == "choice" else (B,)
    sizes = rng.integers(1, T + 1, shape)
    sizes[0] = T
    mask = np.arange(T) < sizes[..., None]
    batch = {
        "input_word_ids": rng.integers(1, V, mask.shape) * mask,
        "input_mask": mask,
        "input_type_ids": mask & (np.arange(T) > 3),
    }
    return {name: value.astype("int32") for name, value in batch.items()}


def build(output, pooler=True, seed=1, encoder=None, **arguments):
    keras.utils.set_random_seed(seed)
    encoder = encoder or bert(**SMALL, pooler=pooler)
    model = bert_task(encoder, output, *KINDS[output], **arguments)
    randomize(encoder, np.random.default_rng(seed), 0.3)
    randomize(model, np.random.default_rng(seed), 0.3)
    return model


def run(model, batch, training=False):
    outputs = model({name: batch[name] for name in model.input}, training=training)
    return {name: keras.ops.convert_to_numpy(value) for name, value in outputs.items()}


def expected(model, batch, output, pooler):
    """The heads of the paper's section 4 on the encoder's reference."""
    encoder = model.get_layer("bert")
    shape = batch["input_mask"].shape
    flat = {name: value.reshape(-1, T) for name, value in batch.items()}
    layers, pooled = bert_reference(flat, encoder) if pooler else (bert_hidden(flat, encoder), None)
    hidden = layers[-1]
    w = {v.path: np.asarray(v.numpy(), "float64") for v in model.weights}
    if output == "span":
        values = {name: (hidden @ w[f"{name}/kernel"])[..., 0] for name in ("start", "end")}
        real = flat["input_mask"] > 0
        return {f"{name}_logits": np.where(real, x, -1e9) for name, x in values.items()}
    if output == "tag":
        return {"tag_logits": hidden @ w["classifier/kernel"] + w["classifier/bias"]}
    pooled = hidden[:, 0] if pooled is None else pooled
    values = pooled @ w["classifier/kernel"]
    if output == "choice":
        return {"choice_logits": values[:, 0].reshape(shape[:2])}
    values = values + w["classifier/bias"]
    return {"class_logits": values} if output == "class" else {"score": values[:, 0]}


def bert_hidden(flat, encoder):
    return [layer.numpy() for layer in encoder(flat)["encoder_outputs"]]


@kinds
@pytest.mark.parametrize("pooler", [True, False])
def test_outputs_are_those_of_the_formula(output, pooler):
    model, batch = build(output, pooler), inputs(output)
    if pooler and output in ("tag", "span"):
        assert not any("pooler" in v.path for v in model.weights)
        want = expected(model, batch, output, False)
    else:
        want = expected(model, batch, output, pooler)
    got = run(model, batch)
    assert set(got) == set(want)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-4)
        assert value.std() > 1e-2


@pytest.mark.parametrize("output", ["class", "tag"])
def test_dropout_is_on_what_the_layer_reads(output):
    still = bert(**{**SMALL, "dropout": 0.0, "attention_dropout": 0.0})
    model, batch = build(output, encoder=still, dropout=0.5), inputs(output)
    (plain,), (dropped,) = run(model, batch).values(), run(model, batch, True).values()
    assert np.abs(plain - dropped).max() > 0.1
    model = build(output, encoder=still, dropout=0.0)
    (plain,), (dropped,) = run(model, batch).values(), run(model, batch, True).values()
    np.testing.assert_allclose(dropped, plain, atol=1e-5)


def test_a_copy_has_the_same_weights_and_other_arguments():
    config = {**SMALL, "seq_length": 7}
    old = bert(**config)
    new = bert_for_tasks(old, config, dropout=0.3, attention_dropout=0.4, dtype="float32")
    assert new.get_layer("embedding_dropout").rate == 0.3
    assert new.get_layer("layer_1").attention_dropout == 0.4
    assert new.input["input_mask"].shape == (None, None)
    for a, b in zip(old.weights, new.weights, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        b.assign(b + 1.0)
        assert np.abs(a.numpy() - b.numpy()).min() > 0.5
    bare = bert_for_tasks(old, config, pooler=False)
    assert "pooled_output" not in bare.output
    np.testing.assert_array_equal(
        bare.get_layer("layer_2").weights[0].numpy(), old.get_layer("layer_2").weights[0].numpy()
    )


def test_without_an_encoder_the_copy_is_a_new_model():
    new = bert_for_tasks(None, {**SMALL, "seq_length": 7}, dropout=0.3)
    plain = bert(**SMALL)
    assert [(v.path, v.shape) for v in new.weights] == [(v.path, v.shape) for v in plain.weights]
    assert new.get_layer("embedding_dropout").rate == 0.3
    assert new.input["input_mask"].shape == (None, None)
