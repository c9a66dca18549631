import itertools
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.toy import (
    ToyBatches,
    assert_same,
    toy_model,
    toy_trainer,
    two_replicas,
    weights,
)
from tfnlp import training
from tfnlp.training.randomness import layer_seeds, seeded, step_seed
from tfnlp.training.run import restore_weights

STEPS = 4


def train(trainer, steps=STEPS, **arguments):
    history = trainer.fit(
        ToyBatches(),
        steps,
        validation=[ToyBatches(seed=99).batch(0)],
        log_every=1,
        progress=False,
        **arguments,
    )
    return history, weights(trainer)


@pytest.fixture(scope="module")
def one_device():
    return train(toy_trainer())


SLOW = dict(strategy=two_replicas, accumulation=2, jit_compile=True, steps_per_call=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        dict(strategy=two_replicas),
        dict(accumulation=4),
        pytest.param(SLOW, marks=pytest.mark.long),
    ],
)
def test_every_split_of_the_batch_gives_the_same_numbers(one_device, arguments):
    arguments = dict(arguments)
    strategy = arguments.pop("strategy", tf.distribute.get_strategy)()
    history, after = train(toy_trainer(strategy, **arguments))
    assert_same(one_device[1], after, atol=2e-5)
    if "steps_per_call" not in arguments:
        for a, b in zip(one_device[0].train, history.train, strict=True):
            assert a["gradient_norm"] > 0.5  # so that clipping matters
            np.testing.assert_allclose(
                [a["loss"], a["gradient_norm"]], [b["loss"], b["gradient_norm"]], rtol=1e-5
            )
    for key, value in one_device[0].validation[-1].items():
        np.testing.assert_allclose(history.validation[-1][key], value, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "data, calls",
    [
        (lambda batch: ToyBatches(), STEPS),
        (lambda batch: batch, 1),
        (lambda batch: map(batch, range(STEPS)), 1),
    ],
    ids=["several steps a call", "function", "iterator"],
)
def test_other_data_and_several_steps_a_call_change_nothing(data, calls, one_device):
    trainer = toy_trainer(steps_per_call=calls)
    trainer.fit(data(ToyBatches().batch), STEPS, progress=False)
    assert_same(one_device[1], weights(trainer))


@pytest.mark.slow
def test_held_out_batches_of_many_lengths_share_a_trace():
    def cut(number, length):
        batch = ToyBatches().batch(number)
        return {k: v[:, :length] if v.shape[1:] == (12,) else v for k, v in batch.items()}

    batches = [cut(number, length) for number, length in enumerate((12, 8, 10, 9))]
    trainer = toy_trainer()
    together = trainer.evaluate(batches)
    assert trainer.engine.evaluate_batch.experimental_get_tracing_count() == 2
    weights = [batch["masked_lm_weights"].sum() for batch in batches]
    losses = [toy_trainer().evaluate([batch])["masked_lm_loss"] for batch in batches[:2]]
    losses += [trainer.evaluate([batch])["masked_lm_loss"] for batch in batches[2:]]
    np.testing.assert_allclose(
        together["masked_lm_loss"], np.average(losses, weights=weights), rtol=1e-5
    )


def test_dropout_differs_between_steps_replicas_and_micro_batches():
    places = itertools.product(range(3), range(2), range(2))
    assert len({tuple(step_seed(0, *place).numpy()) for place in places}) == 12


def test_replicas_drop_different_units():
    keras.utils.set_random_seed(0)
    strategy = two_replicas()
    with strategy.scope():
        x = keras.Input((4000,), name="x")
        model = keras.Model({"x": x}, {"y": keras.layers.Dropout(0.5)(x)})

    @tf.function
    def masks():
        def one():
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            with seeded(model, layer_seeds(model, step_seed(0, 0, 0, replica))):
                return model({"x": tf.ones((1, 4000))}, training=True)["y"]

        return strategy.experimental_local_results(strategy.run(one))

    first, second = (m.numpy() > 0 for m in masks())
    agreement = (first == second).mean()
    assert 0.45 < agreement < 0.55  # independent coins agree half of the time


@pytest.mark.slow
def test_resume_is_bit_identical_with_dropout(tmp_path):
    whole, after = train(toy_trainer(dropout=0.2, directory=tmp_path / "a", keep=6), 6)
    third = "checkpoints/step-0000000003"
    shutil.copytree(tmp_path / "a" / third, tmp_path / "b" / third)
    halves, resumed = train(toy_trainer(dropout=0.2, directory=tmp_path / "b"), 6)
    assert_same(after, resumed)
    assert whole.train == halves.train
    assert whole.validation == halves.validation


@pytest.mark.slow
def test_other_settings_than_those_of_the_directory_are_refused(tmp_path):
    train(toy_trainer(directory=tmp_path), 2)
    same = toy_trainer(directory=tmp_path, jit_compile=True, steps_per_call=2)
    train(same, 2)  # nothing left to do, and the same numbers
    adam = training.AdamW(epsilon=1e-6, bias_correction=False, beta_2=0.98)
    for arguments, text in (
        (dict(optimizer=adam), "optimizer.beta_2"),
        (dict(learning_rate=training.linear(2e-2, 20, 2)), "learning_rate.0"),
        (dict(seed=1, clip_norm=None), "clip_norm was 0.5, now None; seed was 0, now 1"),
        (dict(layer_rates=training.LayerRates(0.5)), "layer_rates was None, now {'decay': 0.5"),
    ):
        with pytest.raises(ValueError, match=text):
            train(toy_trainer(directory=tmp_path, **arguments), 2)
    with pytest.raises(ValueError, match="steps=1"):
        train(toy_trainer(directory=tmp_path), 1)


@pytest.mark.slow
def test_early_stopping_survives_a_restart(tmp_path):
    arguments = dict(patience=2, monitor="loss", evaluate_every=1)
    # The rate is so large that the held-out loss grows at once.
    trainer = toy_trainer(learning_rate=0.5, directory=tmp_path)
    history, _ = train(trainer, 50, **arguments)
    assert trainer.step < 50
    assert trainer.step == history.best_step("loss") + 2
    again = toy_trainer(learning_rate=0.5, directory=tmp_path)
    train(again, 50, **arguments)
    assert again.step == trainer.step
    assert again.restore(best=True) == history.best_step("loss")
    # The history stays that of the run: where it got worse again is what it shows.
    assert again.history.state() == history.state()
    best, loaded = restore_weights(tmp_path, toy_model())
    assert best == history.best_step("loss") and loaded.state() == history.state()
    assert [row["step"] for row in loaded.validation] == list(range(1, best + 3))


@pytest.mark.slow
def test_a_loss_that_is_no_number_stops_before_the_checkpoint(tmp_path):
    class Broken(ToyBatches):
        def batch(self, step):
            batch = super().batch(step)
            if step >= 2:
                batch["masked_lm_weights"] = batch["masked_lm_weights"] * np.float32("nan")
            return batch

    trainer = toy_trainer(directory=tmp_path)
    with pytest.raises(FloatingPointError, match="at step 3"):
        trainer.fit(Broken(), 5, checkpoint_every=1, progress=False)
    fresh = toy_trainer(directory=tmp_path)
    assert fresh.restore() == 2
    assert all(np.isfinite(w).all() for w in weights(fresh))


@pytest.mark.slow
def test_regularization_is_counted_once_however_the_batch_is_split(one_device):
    def regularized(*arguments, **more):
        trainer = toy_trainer(*arguments, **more)
        kernel = trainer.objective.model.get_layer("pooler").dense.kernel
        kernel.regularizer = keras.regularizers.L2(0.5)
        return train(trainer)[1]

    one = regularized()
    assert max(np.abs(a - b).max() for a, b in zip(one, one_device[1], strict=True)) > 1e-3
    assert_same(one, regularized(two_replicas(), accumulation=2), atol=2e-5)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="batch of 15"):
        toy_trainer(accumulation=2).fit(ToyBatches(15), 1)
    with pytest.raises(ValueError, match="nothing to evaluate"):
        toy_trainer().evaluate([])
