"""The loop over training steps: evaluation, checkpoints, logs and callbacks between them.

Callbacks are Keras's. In the order of the calls, of each start of a run:

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

from __future__ import annotations

import contextlib
import json
import math
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import keras

from tfnlp.files import joined
from tfnlp.optional_tensorflow import has_tensorflow, tf
from tfnlp.training.history import means
from tfnlp.training.monitor import Monitor, Profile, Progress, conceptual_graph
from tfnlp.training.optimizers import optimizer_settings
from tfnlp.training.run import is_run, read_config

if TYPE_CHECKING:
    from tfnlp.training.trainer import Trainer

_MOST_FAILED = 20  # updates that no scale of the loss makes finite; fewer may be odd batches
Validation = Iterable[Any] | Callable[[], dict[str, float]]


class Loop:
    """The steps of one call of `Trainer.fit`, up to `last` updates in all.

    The trainer is at the first step; for other arguments see `Trainer.fit`. By default there are
    ten evaluations, and as many checkpoints, and 200 rows of the history in `steps`.

    Attributes:
        saved: the step of the last checkpoint.
    """

    def __init__(
        self,
        trainer: Trainer,
        steps: int,
        last: int,
        *,
        validation: Validation | None,
        evaluate_every: int | None,
        checkpoint_every: int | None,
        log_every: int | None,
        patience: int | None,
        monitor: str,
        callbacks: Sequence[keras.callbacks.Callback],
        progress: bool,
        profile: tuple[int, int] | None,
    ) -> None:
        self.trainer, self.last = trainer, last
        self.evaluate_every = evaluate_every or max(1, math.ceil(steps / 10))
        self.checkpoint_every = checkpoint_every or self.evaluate_every
        self.log_every = log_every or max(1, steps // 200)
        self.validation, self.patience, self.monitor = validation, patience, monitor
        self.first = self.saved = trainer.step
        self._model, self._failed = trainer.objective.model, 0.0  # updates in a row
        chief, directory = trainer.workers.chief, trainer.directory
        self._profile = Profile(directory, profile if chief else None, self.first)
        self.callbacks = self._callback_list(callbacks)
        self.logs: dict[str, float] = {}  # of the last epoch that has ended
        self.optimizer = RunOptimizer(optimizer_settings(trainer.optimizer), self.first)
        self._writer = None  # of events for TensorBoard
        if chief and directory is not None and has_tensorflow():
            self._writer = tf.summary.create_file_writer(joined(directory, "logs"))
            if not self.first:
                self._write_start(directory)
        self._speeds = Monitor(self._model)
        self._bar = Progress(self.first, last, progress and chief)

    def _callback_list(self, callbacks: Any) -> keras.callbacks.CallbackList:
        """Return callbacks that know the model and, as those of `keras.Model.fit`, the run."""
        callbacks = keras.tree.flatten(callbacks)
        for callback in callbacks:
            if not isinstance(callback, keras.callbacks.Callback):
                raise ValueError(
                    f"`callbacks` {callback!r:.60} must be Keras callbacks, made already"
                )
        params = {"epochs": -(-self.last // self.evaluate_every), "steps": self.evaluate_every}
        params.update(verbose=0, initial_step=self.first)
        return keras.callbacks.CallbackList(callbacks, model=self._model, **params)

    def run(self, iterator: Iterator[Any] | None) -> bool:
        """Train until `last` updates have been made, or a reason to stop; return whether a signal.

        The iterator is None if there is no step to make.
        """
        trainer, interrupted = self.trainer, False
        with StopSignal() as signal, self._profile, self._bar:
            while (step := trainer.step) < self.last:
                if step % self.evaluate_every == 0 or step == self.first:
                    self.callbacks.on_epoch_begin(step // self.evaluate_every)
                logs = self._train(iterator, step)
                step = trainer.step
                if self._is_due(step, self.evaluate_every):
                    self._evaluate(step, logs)
                # A worker that stopped alone would leave the others waiting for it.
                told = trainer.workers.gather(signal.received, self._model.stop_training)
                interrupted, finished = told.any(axis=0)
                early = trainer.history.stopped_early(self.monitor, self.patience)
                stopping = interrupted or finished or early
                if trainer.directory is not None and (
                    stopping or self._is_due(step, self.checkpoint_every)
                ):
                    trainer.save_checkpoint()
                    self.saved = step
                if stopping:
                    break
        return bool(interrupted)

    def _is_due(self, step: int, interval: int) -> bool:
        return step % interval == 0 or step == self.last

    def _train(self, iterator: Iterator[Any], step: int) -> dict[str, float]:
        """Make the steps of one call into TensorFlow; return their means."""
        trainer = self.trainer
        intervals = self.evaluate_every, self.checkpoint_every, self.log_every
        stops = [(step // n + 1) * n for n in intervals]
        end = min(self.last, step + trainer.steps_per_call, *stops)
        self.callbacks.on_train_batch_begin(step)
        with self._profile.of(step, end), self._speeds:
            try:
                totals = trainer.train_steps(iterator, end - step)
            except StopIteration as error:
                raise ValueError(
                    f"data ended after step {trainer.step} of {self.last}; it must have a batch "
                    "for every step"
                ) from error
            totals = {name: float(value) for name, value in totals.items()}
        totals = self._speeds.take(totals)
        failed = totals.pop("failed", 0.0)
        logs = trainer.objective.report(means(totals))
        # Steps without targets have no loss, those that were skipped no norm either.
        loss, norm = logs.get("loss", 0.0), logs.get("gradient_norm", 0.0)
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise FloatingPointError(
                f"loss is {loss} and gradient norm {norm} at step {end}; lower the learning rate "
                "or lengthen the warm-up"
            )
        self._failed = self._failed + failed if failed == totals["steps"] else failed
        if self._failed >= _MOST_FAILED:
            raise FloatingPointError(
                f"gradients are not finite at step {end}, the last of {self._failed:.0f} that were "
                "skipped although the loss is no longer scaled up; lower the learning rate, "
                "lengthen the warm-up or train without float16"
            )
        self.optimizer.follow(end, logs)
        self.callbacks.on_train_batch_end(end - 1, logs)
        self._bar.update(end, {**logs, **self._speeds.recent()})
        trainer.history.add(totals)
        if self._is_due(end, self.log_every):
            row = trainer.history.flush(end)
            self._summarize("train", end, {**row, **self._speeds.row()})
        return logs

    def _summarize(self, group: str, step: int, logs: dict[str, float]) -> None:
        """Write one point of each curve in `logs` for TensorBoard."""
        if self._writer is None:
            return
        with self._writer.as_default(step=step):
            for name, value in logs.items():
                tf.summary.scalar(f"{group}/{name}", value)
        self._writer.flush()

    def _write_start(self, directory: str) -> None:
        """Write the model's layers for TensorBoard, and a run's `config.json`, as Markdown."""
        graph = conceptual_graph(self._model)
        with self._writer.as_default(step=0):
            if graph is not None:
                metadata = tf.compat.v1.SummaryMetadata()  # as `keras.callbacks.TensorBoard` does
                metadata.plugin_data.plugin_name = "graph_keras_model"
                metadata.plugin_data.content = b"1"  # version
                tf.summary.write("keras", tf.constant(graph), metadata=metadata)
            if is_run(directory):
                text = json.dumps(read_config(directory), indent=2)
                tf.summary.text("settings", f"```json\n{text}\n```")

    def _evaluate(self, step: int, logs: dict[str, float]) -> None:
        """Add a row of held-out means to the history, and save the weights if they are the best."""
        trainer, held_out = self.trainer, {}
        if self.validation is not None:
            self.callbacks.on_test_begin()
            if callable(self.validation):
                trainer.engine.collect()
                held_out = {name: float(value) for name, value in self.validation().items()}
            else:
                held_out = trainer.evaluate(self.validation)
            trainer.history.add_validation(step, held_out)
            self._summarize("validation", step, held_out)
            self._bar.note(step, held_out)
            if trainer.directory is not None and trainer.history.best_step(self.monitor) == step:
                trainer.save_checkpoint(best=True)
            self.callbacks.on_test_end(dict(held_out))
        logs.update({f"val_{name}": value for name, value in held_out.items()})
        self.logs = logs
        self.callbacks.on_epoch_end((step - 1) // self.evaluate_every, logs)


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


class StopSignal:
    """While open, SIGINT, SIGTERM or SIGHUP sets `received`; a second signal acts at once.

    A signal that the process was started to ignore, SIGHUP by `nohup` say, is ignored.
    """

    SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP

    def __init__(self) -> None:
        self.received = False
        self._previous = {}

    def __enter__(self) -> StopSignal:
        # Only the main thread may set handlers; in others signals act as usual.
        if threading.current_thread() is threading.main_thread():
            numbers = [getattr(signal, name) for name in self.SIGNALS if hasattr(signal, name)]
            for number in numbers:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        self.__exit__()
