"""Keras callbacks in `Trainer.fit`: what they are told, beside `keras.Model.fit`."""

import keras
import numpy as np
import pytest

from tests.training.keras_test import LOSS, dataset, model, train, trainer


class Calls(keras.callbacks.Callback):
    """Writes down what it is told, but for the numbers in logs; fails where it is told to."""

    def __init__(self, fails=None):
        super().__init__()
        self.calls, self.fails = [], fails

    def told(self, *call):
        self.calls.append(call)
        if call == self.fails:
            raise RuntimeError("lost the server")


def _method(name):
    def call(self, *arguments, logs=None):
        numbers = [x for x in arguments if isinstance(x, int)]
        logs = next((x for x in arguments if isinstance(x, dict)), logs) or {}
        self.told(name, *numbers, *(["val_loss"] if "val_loss" in logs else []))

    return call


for _of in ("train", "epoch", "test"):
    for _end in ("begin", "end"):
        setattr(Calls, f"on_{_of}_{_end}", _method(f"{_of}_{_end}"))
for _end in ("begin", "end"):
    setattr(Calls, f"on_train_batch_{_end}", _method(f"batch_{_end}"))


def held_out():
    return list(dataset().take(1))


def test_calls_are_those_of_fit():
    """But the numbers of batches go on: they are steps."""
    reference, seen = model(), Calls()
    reference.compile(keras.optimizers.AdamW(1e-2), LOSS)
    more = dict(steps_per_epoch=3, validation_data=dataset().take(1), verbose=0)
    reference.fit(dataset().repeat(), epochs=2, callbacks=[seen], **more)
    ours = Calls()
    train(trainer(), 6, validation=held_out(), evaluate_every=3, callbacks=ours)
    steps = iter(range(6))
    want = []
    for name, *more in seen.calls:
        if name == "batch_begin":
            step = next(steps)
        want.append((name, step) if name.startswith("batch") else (name, *more))
    assert ours.calls == want
    assert ours.params == {"epochs": 2, "steps": 3, "verbose": 0, "initial_step": 0}


def test_a_callback_reads_the_optimizer_and_can_not_change_it():
    """MLflow's and W&B's read these."""
    found = []

    class Reads(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            optimizer = self.model.optimizer
            assert optimizer.learning_rate.shape == ()
            rate = optimizer.learning_rate.numpy().item()
            assert rate == np.float32(logs["learning_rate"])
            found.append(int(optimizer.iterations.numpy()))

        def on_train_end(self, logs=None):
            assert self.model.optimizer.get_config()["name"] == "keras.AdamW"

    made = trainer()
    train(made, 4, callbacks=[Reads()])
    assert found == [1, 2, 3, 4]
    assert getattr(made.objective.model, "optimizer", None) is None
    changes = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1)
    with pytest.raises(ValueError, match="can't set the learning rate of a run"):
        train(trainer(), 4, callbacks=[changes])
    with pytest.raises(ValueError, match="`callbacks` .* must be Keras callbacks"):
        train(trainer(), 4, callbacks=[keras.callbacks.EarlyStopping])


def test_early_stopping_stops(tmp_path):
    stop = keras.callbacks.EarlyStopping("val_loss", mode="max", patience=2)  # a loss that falls
    keep = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", save_best_only=True)
    made = trainer()
    history, after = train(
        made, 20, validation=held_out(), evaluate_every=2, callbacks=[stop, keep]
    )
    falls = [row["loss"] for row in history.validation]
    assert falls == sorted(falls, reverse=True) and made.step == 6
    kept = keras.saving.load_model(tmp_path / "best.keras").get_weights()
    for one, other in zip(kept, after, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("fails", [("batch_end", 3), ("epoch_end", 1, "val_loss"), ("test_end",)])
def test_a_run_whose_callback_fails_goes_on_where_it_was(fails, tmp_path):
    again = dict(validation=held_out(), evaluate_every=2, checkpoint_every=1)
    whole, weights = train(trainer(directory=tmp_path / "whole"), **again)
    with pytest.raises(RuntimeError, match="lost the server"):
        train(trainer(directory=tmp_path / "run"), callbacks=[Calls(fails)], **again)
    made, seen = trainer(directory=tmp_path / "run"), Calls()
    kept = made.restore()
    assert 0 < kept < 6
    history, after = train(made, callbacks=[seen], **again)
    assert history.state() == whole.state()
    for one, other in zip(after, weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert seen.calls[1:3] == [("epoch_begin", kept // 2), ("batch_begin", kept)]
    assert seen.params["initial_step"] == kept
