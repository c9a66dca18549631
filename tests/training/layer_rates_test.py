import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training import toy
from tests.training.toy import ToyBatches, assert_same, two_replicas, weights
from tfnlp import models, training
from tfnlp.training import LayerRates, layer_groups

toy_model = functools.partial(toy.toy_model, num_layers=2)
toy_trainer = functools.partial(toy.toy_trainer, num_layers=2)
SIZES = dict(vocab_size=20, hidden_size=8, num_heads=2, intermediate_size=8, max_positions=8)


def nested_bert():
    encoder = models.bert(num_layers=3, **SIZES)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in encoder.input}
    head = keras.layers.Dense(2, name="classifier")
    return encoder, keras.Model(inputs, {"logits": head(encoder(inputs)["pooled_output"])})


def nested_gpt():
    encoder = models.gpt(num_layers=3, norm_first=True, **SIZES)
    return encoder, models.gpt_task(encoder, "choice", sequences=2)


def bert_with_heads():
    encoder = models.bert(num_layers=3, name="layer_7", **SIZES)
    return encoder, models.bert_pretrainer(encoder)


@pytest.mark.parametrize("make", [nested_bert, nested_gpt, bert_with_heads])
def test_groups_follow_the_layers(make):
    encoder, model = make()
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
    with tf.GradientTape() as tape:
        outputs = model({k: batch[k] for k in model.input})
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch["masked_lm_ids"], outputs["mlm_logits"]
        )
        loss = tf.reduce_sum(losses * batch["masked_lm_weights"])
        loss /= batch["masked_lm_weights"].sum()
        loss += tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                batch["next_sentence_labels"], outputs["next_sentence_logits"]
            )
        )
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    return [tf.convert_to_tensor(g).numpy().astype("float64") for g in gradients]


def norm_of(gradients):
    return np.sqrt(sum((g**2).sum() for g in gradients))


@pytest.mark.parametrize("frozen", [0, 2])
def test_one_step_has_a_rate_for_each_layer(frozen):
    gradients, groups = toy_gradients(ToyBatches().batch(0)), toy_groups()
    norm = norm_of([g for g, group in zip(gradients, groups, strict=True) if group >= frozen])
    want = []
    for w, g, group in zip(weights(toy_trainer()), gradients, groups, strict=True):
        g = g * 0.5 / max(norm, 0.5)
        decay = 0.01 if w.ndim == 2 else 0.0
        update = 0.1 * g / (np.sqrt(0.001 * g**2) + 1e-6) + decay * w
        rate = 1e-2 * 0.4 ** (3 - group) if group >= frozen else 0.0
        want.append(w - rate * update)

    trainer = toy_trainer(learning_rate=1e-2, layer_rates=LayerRates(0.4, frozen))
    # Frozen weights are no longer trainable, so `weights` would leave them out.
    paths = [v.path for v in toy_model().trainable_variables]
    history = trainer.fit(ToyBatches(), 1, progress=False)
    got = {v.path: v.numpy() for v in trainer.task.model.variables}
    np.testing.assert_allclose(history.train[0]["gradient_norm"], norm, rtol=1e-4)
    np.testing.assert_allclose(history.train[0]["learning_rate"], 1e-2, rtol=1e-6)
    for path, value, group in zip(paths, want, groups, strict=True):
        np.testing.assert_allclose(got[path], value, atol=2e-5)
        assert (f"m/{path}" in trainer.optimizer.slots) == (group >= frozen)
    assert len(weights(trainer)) == (groups >= frozen).sum()


def test_a_decay_of_one_is_no_decay():
    plain, trainer = toy_trainer(), toy_trainer(layer_rates=LayerRates())
    for t in (plain, trainer):
        t.fit(ToyBatches(), 3, progress=False)
    assert_same(weights(plain), weights(trainer))


OPTIMIZERS = {
    "adamw": lambda: training.AdamW(weight_decay=0.1),
    "lamb": lambda: training.LAMB(weight_decay=0.1),
    # So small that the square of the smallest gradient changes it.
    "adagrad": lambda: training.Adagrad(initial_accumulator=1e-9, weight_decay=0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_groups_are_unfrozen_from_the_top(name):
    optimizer = OPTIMIZERS[name]()
    rates = LayerRates(unfreeze_every=2)
    trainer = toy_trainer(optimizer=optimizer, learning_rate=1e-2, layer_rates=rates)
    groups, before = toy_groups(), weights(trainer)
    slots = {key: slot.numpy() for key, slot in optimizer.slots.items()}
    paths = [v.path for v in trainer.task.model.trainable_variables]
    first_norm = trainer.fit(ToyBatches(), 1, progress=False).train[0]["gradient_norm"]
    head = [g for g, n in zip(toy_gradients(ToyBatches().batch(0)), groups, strict=True) if n == 3]
    np.testing.assert_allclose(first_norm, norm_of(head), rtol=1e-4)
    for step in (1, 2, 3, 5, 6, 7):
        for path, old, new, group in zip(paths, before, weights(trainer), groups, strict=True):
            moved = step > 2 * (3 - group)  # after so many updates
            assert np.array_equal(old, new) == (not moved), (path, step)
            for slot in optimizer.slot_names:
                same = np.array_equal(slots[f"{slot}/{path}"], optimizer.slots[f"{slot}/{path}"])
                assert same == (not moved), (slot, path, step)
        if step < 7:
            trainer.fit(ToyBatches(), step + (2 if step == 3 else 1), progress=False)


def test_bias_correction_counts_from_the_unfreezing():
    # Adam's first step is the rate for every weight whose gradient is not tiny.
    optimizer = training.AdamW(weight_decay=0.0, epsilon=1e-12, bias_correction=True)
    rates = LayerRates(decay=0.5, unfreeze_every=3)
    trainer = toy_trainer(optimizer=optimizer, learning_rate=1e-3, layer_rates=rates)
    kernels = [
        trainer.task.model.get_layer(f"layer_{block}").output_dense.kernel for block in (1, 0)
    ]
    for number, kernel in enumerate(kernels, 1):
        trainer.fit(ToyBatches(), 3 * number, progress=False)
        before = kernel.numpy()
        trainer.fit(ToyBatches(), 3 * number + 1, progress=False)
        moved = np.abs(kernel.numpy() - before)
        np.testing.assert_allclose(np.median(moved), 1e-3 * 0.5**number, rtol=1e-3)


VARIANTS = {
    "two replicas, accumulated": dict(strategy=two_replicas, accumulation=2),
    "XLA, three steps a call": dict(jit_compile=True, steps_per_call=3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_every_split_of_the_batch_gives_the_same_weights(name):
    def train(strategy=lambda: None, **arguments):
        rates = LayerRates(decay=0.7, frozen=1, unfreeze_every=2)
        trainer = toy_trainer(strategy(), layer_rates=rates, **arguments)
        trainer.fit(ToyBatches(), 5, log_every=5, progress=False)
        return [v.numpy() for v in trainer.task.model.variables if v.dtype == "float32"]

    start = [v.numpy() for v in toy_model().variables if v.dtype == "float32"]
    one = train()
    assert sum(not np.array_equal(a, b) for a, b in zip(start, one, strict=True)) == sum(
        toy_groups() >= 1
    )
    assert_same(one, train(**VARIANTS[name]), atol=2e-5)


@pytest.mark.slow
def test_resume_during_the_unfreezing_is_bit_identical(tmp_path):
    def train(directory, steps):
        rates = LayerRates(decay=0.7, frozen=1, unfreeze_every=2)
        optimizer = training.AdamW(bias_correction=True)
        trainer = toy_trainer(
            dropout=0.2, optimizer=optimizer, layer_rates=rates, directory=tmp_path / directory
        )
        trainer.fit(ToyBatches(), steps, progress=False)
        return [v.numpy() for v in trainer.task.model.variables if v.dtype == "float32"]

    whole = train("a", 6)
    train("b", 3)
    assert_same(whole, train("b", 6))


def test_something_must_be_left_to_train():
    with pytest.raises(ValueError, match="frozen=4 leaves nothing to train.*0 to 3"):
        toy_trainer(layer_rates=LayerRates(frozen=4))
