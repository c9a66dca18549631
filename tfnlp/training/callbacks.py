"""Keras callbacks of a run: what they read besides the logs.

In the order of the calls, of each start of a run:

    on_train_begin()
      on_epoch_begin(epoch)               an epoch is the steps between two evaluations
        on_train_batch_begin(step)        the first step, from 0, of one call into the engine
        on_train_batch_end(step, logs)    its last step; means over the call's steps
        on_test_begin()
        on_test_end(logs)                 the held-out measures, where there are any
      on_epoch_end(epoch, logs)           the last call's means, and the measures as `val_...`
    on_train_end(logs)                    those of the last epoch

A start that resumes a run goes on with the numbers of epochs and steps. `model.stop_training` ends
the run after the call; what a callback raises ends it as it is, and the next start resumes it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import keras


class RunOptimizer:
    """What Keras callbacks read as `model.optimizer`: it follows the run, and changes nothing."""

    def __init__(self, settings: Mapping[str, Any], step: int) -> None:
        self._settings = dict(settings)
        self.iterations = keras.Variable(step, dtype="int32", trainable=False)
        self._rate = keras.Variable(0.0, trainable=False)

    def get_config(self) -> dict[str, Any]:
        """Return the settings of the run's optimizer."""
        return self._settings

    @property
    def learning_rate(self) -> keras.Variable:
        """That of the last step; no callback can set it."""
        return self._rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        raise ValueError(
            "a callback can't set the learning rate of a run, which would not end the same when it "
            "is resumed; give `learning_rate` and `schedule`"
        )

    def follow(self, step: int, logs: Mapping[str, float]) -> None:
        """Take the numbers of a step."""
        self.iterations.assign(step)
        self._rate.assign(logs.get("learning_rate", 0.0))


@contextlib.contextmanager
def optimizer_shown(model: keras.Model, optimizer: RunOptimizer) -> Iterator[None]:
    """Let callbacks read the run's optimizer as that of the model."""
    before = getattr(model, "optimizer", None)
    model.optimizer = optimizer
    try:
        yield
    finally:
        model.optimizer = before
