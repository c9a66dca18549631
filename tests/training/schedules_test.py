"""Schedules against their formulas; rates by layer and frozen layers against one tape."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers.gradients import gradients, without_rows
from tests.training import toy
from tests.training.toy import ToyBatches, weights
from tfnlp import models, training
from tfnlp.training import LayerRates, layer_groups

toy_model = functools.partial(toy.toy_model, num_layers=2)
toy_trainer = functools.partial(toy.toy_trainer, num_layers=2)
SIZES = dict(vocab_size=20, hidden_size=8, num_heads=2, intermediate_size=8, max_positions=8)


def values(rate, steps):
    return np.array([float(rate(step)) for step in range(steps)])


def test_linear_rises_to_the_peak_and_falls_to_the_end():
    got = values(training.linear(2.0, 10, 4), 12)
    want = [0.5, 1.0, 1.5, 2.0, 2.0, 2 * 5 / 6, 2 * 4 / 6, 2 * 3 / 6, 2 * 2 / 6, 2 * 1 / 6, 0, 0]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_cosine_follows_half_a_wave():
    got = values(training.cosine(3.0, 12, 2), 12)
    want = 3 * 0.5 * (1 + np.cos(np.pi * (np.arange(2, 12) - 2) / 10))
    np.testing.assert_allclose(got[2:], want, rtol=1e-5)
    np.testing.assert_allclose(got[:2], [1.5, 3.0], rtol=1e-6)


def test_constant_after_the_warmup():
    np.testing.assert_allclose(values(training.constant(0.4, 2), 4), [0.2, 0.4, 0.4, 0.4])


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "inverse_sqrt"])
def test_no_update_is_wasted_on_a_rate_of_zero(name):
    assert (values(training.schedule(name, 1e-3, 20, 5), 20) > 0).all()


def test_noam_is_equation_3():
    # lrate = d^-0.5 min(n^-0.5, n w^-1.5), n counted from 1.
    d, w = 256, 9
    n = np.arange(1, 60)
    want = d**-0.5 * np.minimum(n**-0.5, n * w**-1.5)
    np.testing.assert_allclose(values(training.noam(d, w), 59), want, rtol=1e-5)
    np.testing.assert_allclose(values(training.noam(d, w, scale=2.5), 59), 2.5 * want, rtol=1e-5)
    assert want.argmax() == w - 1  # it peaks where the warm-up ends


def nested_bert(encoder):
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in encoder.input}
    head = keras.layers.Dense(2, name="classifier")
    return keras.Model(inputs, {"logits": head(encoder(inputs)["pooled_output"])})


ENCODERS = {
    "bert": (models.bert, nested_bert),
    "gpt": (
        functools.partial(models.gpt, norm_first=True),
        lambda encoder: models.gpt_task(encoder, "choice", sequences=2),
    ),
    "mpnet": (
        models.mpnet,
        lambda encoder: models.bert_task(encoder, "class", num_classes=2, hidden="tanh"),
    ),
    "bert with heads": (functools.partial(models.bert, name="layer_7"), models.bert_pretrainer),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_groups_follow_the_layers(name):
    make, task = ENCODERS[name]
    encoder = make(num_layers=3, **SIZES)
    model = task(encoder)
    want = {id(v): 4 for v in model.variables}  # if not found below
    for layer in encoder.layers:
        block = layer.name.removeprefix("layer_")
        if block.isdigit() or "embedding" in layer.name:
            group = int(block) + 1 if block.isdigit() else 0
            want.update({id(v): group for v in layer.variables})
    variables = model.trainable_variables
    groups = layer_groups(variables)
    assert groups == [want[id(v)] for v in variables]
    assert set(groups) == {0, 1, 2, 3, 4}
    shuffled = np.random.default_rng(0).permutation(len(variables))
    assert layer_groups([variables[i] for i in shuffled]) == [groups[i] for i in shuffled]


def toy_groups():
    """Group by variable, in the order of `weights`: the toy has two blocks, its head is group 3."""
    return np.array(layer_groups(toy_model().trainable_variables))


def toy_gradients(batch):
    """One tape over the whole batch, without the trainer."""
    model = toy_model()

    def mean():
        outputs = model({k: batch[k] for k in model.input})
        log_p = tf.nn.log_softmax(outputs["mlm_logits"])
        picked = tf.gather(log_p, batch["masked_lm_ids"], batch_dims=2)
        loss = -tf.reduce_sum(picked * batch["masked_lm_weights"])
        loss /= batch["masked_lm_weights"].sum()
        labels = batch["next_sentence_labels"]
        pair = tf.gather(tf.nn.log_softmax(outputs["next_sentence_logits"]), labels, batch_dims=1)
        return loss - tf.reduce_mean(pair)

    loss, found = gradients(mean, model.trainable_variables)
    return loss, [g.numpy().astype("float64") for g in without_rows(found)]


def norm_of(gradients):
    return np.sqrt(sum((g**2).sum() for g in gradients))


@pytest.mark.slow
@pytest.mark.parametrize("decay, frozen", [(None, 0), (0.4, 2)])
def test_a_step_applies_the_clipped_gradient_with_a_rate_for_each_layer(decay, frozen):
    loss, found = toy_gradients(ToyBatches().batch(0))
    groups = toy_groups()
    norm = norm_of([g for g, group in zip(found, groups, strict=True) if group >= frozen])
    want = []
    for w, g, group in zip(weights(toy_trainer()), found, groups, strict=True):
        g = g * 0.5 / max(norm, 0.5)
        update = 0.1 * g / (np.sqrt(0.001 * g**2) + 1e-6) + (0.01 * w if w.ndim == 2 else 0.0)
        rate = 1e-2 * (decay or 1) ** (3 - group) if group >= frozen else 0.0
        want.append(w - rate * update)

    rates = None if decay is None else LayerRates(decay, frozen)
    trainer = toy_trainer(learning_rate=1e-2, layer_rates=rates)
    # Frozen weights are no longer trainable, so `weights` would leave them out.
    paths = [v.path for v in toy_model().trainable_variables]
    history = trainer.fit(ToyBatches(), 1, progress=False)
    got = {v.path: v.numpy() for v in trainer.objective.model.variables}
    np.testing.assert_allclose(history.train[0]["loss"], loss, rtol=1e-5)
    np.testing.assert_allclose(history.train[0]["gradient_norm"], norm, rtol=1e-4)
    np.testing.assert_allclose(history.train[0]["learning_rate"], 1e-2, rtol=1e-6)
    for path, value, group in zip(paths, want, groups, strict=True):
        np.testing.assert_allclose(got[path], value, atol=2e-5)
        assert (f"m/{path}" in trainer.optimizer.slots) == (group >= frozen)
    assert len(weights(trainer)) == (groups >= frozen).sum()


@pytest.mark.parametrize("frozen", [0, 2])
def test_the_groups_below_are_frozen_and_the_rates_fall_from_the_head_down(frozen):
    model = toy_model()  # the head is group 3
    paths = [v.path for v in model.trainable_variables]
    groups = dict(zip(paths, toy_groups(), strict=True))
    rates = LayerRates(0.5, frozen)
    rates.build(model)
    left = [v.path for v in model.trainable_variables]
    assert left == [path for path in paths if groups[path] >= frozen]
    want = [2.0 * 0.5 ** (3 - groups[path]) for path in left]
    np.testing.assert_allclose(rates.rates(2.0), want, rtol=1e-6)


def test_something_must_be_left_to_train():
    with pytest.raises(ValueError, match="frozen=4"):
        toy_trainer(layer_rates=LayerRates(frozen=4))
