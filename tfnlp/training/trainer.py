"""The trainer: fit, evaluate, checkpoints and resume of an objective on any strategy."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import keras

from tfnlp.extras import say_once
from tfnlp.files import joined
from tfnlp.layers.remat import check_remat
from tfnlp.locks import locked
from tfnlp.objectives import KerasObjective, Objective
from tfnlp.optional_tensorflow import is_tf_dataset, tf
from tfnlp.training.batches import Batches, StepData
from tfnlp.training.checkpoints import Checkpoints, check_settings, jsonable
from tfnlp.training.engines.step import StepSettings
from tfnlp.training.history import History, means, without_targets
from tfnlp.training.loop import Loop, Validation, optimizer_shown
from tfnlp.training.loss_scaling import LossScaling, as_loss_scaling, matmul_dtype
from tfnlp.training.optimizer_base import KerasOptimizer, Optimizer
from tfnlp.training.optimizers import as_optimizer, optimizer_settings
from tfnlp.training.schedules import LayerRates, Rate, as_rate, rate_settings
from tfnlp.training.strategy import default_strategy, use_mirrored

if keras.backend.backend() == "jax":
    from tfnlp.training.engines.jax import JaxEngine as Engine
else:
    from tfnlp.training.engines.tensorflow import TensorFlowEngine as Engine

if TYPE_CHECKING:
    from tfnlp.training.engines.jax_devices import JaxDevices

F = TypeVar("F", bound=Callable[..., Any])

_NO_EXACT_RESUME = (
    "data is a tf.data.Dataset or an iterator: when this run is resumed, its batches are not those "
    "that followed; for an exact resume give a function of the step, or an object with "
    "`batch_size` and `dataset(first_step)`"
)


def _raises_worker_lost(method: F) -> F:
    """Make a method of the trainer raise `WorkerLost` if another worker is lost."""

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            lost = self.workers.lost(error)
            if lost is None:
                raise
            raise lost from error

    return wrapped


class Trainer:
    """Trains an objective, on one device or many; a run that was killed and resumed ends the same.

    Build the objective's model inside `strategy.scope()`. With several workers all make the same
    calls; the first one alone writes and shows progress, and all must see the files that it writes.

    Args:
        objective: what is learnt, see `tfnlp.objectives`; or a Keras model, with `loss`.
        optimizer: from `tfnlp.training.optimizers`; a new `keras.optimizers.Optimizer`, made in
            the strategy's scope; or a name: one that `tfnlp.training.optimizer` knows ("adam" is
            the Transformer's), or else one of Keras.
        learning_rate: a float, a function of the step (see `tfnlp.training.schedules`) or a
            `keras.optimizers.schedules.LearningRateSchedule`. None: a Keras optimizer's own.
        loss: of a Keras model, see `tfnlp.objectives.KerasObjective`.
        strategy: a `tf.distribute.Strategy`, under JAX a `JaxDevices`; None takes TensorFlow's
            current one, or all devices of JAX.
        clip_norm: clip the gradient, summed over replicas, to this global norm; None: don't.
        accumulation: micro-batches a step on each replica, for batches too large for the memory.
        steps_per_call: steps that run in one call into TensorFlow.
        jit_compile: compile forward and backward pass with XLA.
        seed: of dropout.
        directory: where checkpoints and TensorBoard logs are written; None writes nothing.
        keep: how many of the last checkpoints to keep, besides the best one.
        loss_scale: the gradient is that of `loss_scale * loss`. This changes only the clipping and
            optimizers whose step depends on the gradient's size (Adagrad's first ones).
        layer_rates: a `LayerRates`: rates by layer and frozen layers; None: one rate for all.
        loss_scaling: a `LossScaling`, which follows the range of float16; True for the usual one;
            None: that one if layers of the model compute in float16.
        remat: which activations are computed again in the backward pass instead of kept, "none",
            "blocks" or "full", see `tfnlp.layers.rematerialization`: less memory, more work, the
            same numbers.

    Raises:
        ValueError: for arguments out of range or of another type, and for a Keras optimizer that
            clips, accumulates or scales by itself.
    """

    def __init__(
        self,
        objective: Objective | keras.Model,
        optimizer: Optimizer | keras.optimizers.Optimizer | str,
        learning_rate: float | Rate | None = None,
        *,
        loss: Any = None,
        strategy: tf.distribute.Strategy | JaxDevices | None = None,
        clip_norm: float | None = 1.0,
        accumulation: int = 1,
        steps_per_call: int = 1,
        jit_compile: bool = False,
        seed: int = 0,
        directory: str | os.PathLike[str] | None = None,
        keep: int = 3,
        loss_scale: float = 1.0,
        layer_rates: LayerRates | None = None,
        loss_scaling: LossScaling | bool | None = None,
        remat: str = "none",
    ) -> None:
        backend = keras.backend.backend()
        if backend not in ("tensorflow", "jax"):
            raise ValueError(f"the backend of Keras is {backend}; training needs tensorflow or jax")
        counts = dict(accumulation=accumulation, steps_per_call=steps_per_call, keep=keep)
        for name, value in counts.items():
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        if clip_norm is not None and not clip_norm > 0:
            raise ValueError(f"clip_norm={clip_norm} must be positive, or None for no clipping")
        if not 0 < loss_scale < math.inf:
            raise ValueError(f"loss_scale={loss_scale} must be positive and finite")
        check_remat(remat)
        self.objective = _as_objective(objective, loss)
        self.strategy = strategy or default_strategy()
        self.accumulation, self.steps_per_call = accumulation, steps_per_call
        self.directory = None if directory is None else str(directory)
        self.history, self._rate = History(), as_rate(learning_rate)
        with self.strategy.scope():
            self.optimizer = as_optimizer(optimizer, self._rate)
        if layer_rates is not None:
            if isinstance(self.optimizer, KerasOptimizer):
                raise ValueError("layer_rates need an optimizer of tfnlp.training, not of Keras")
            layer_rates.build(self.objective.model)
        with self.strategy.scope():
            self.optimizer.build(self.objective.model.trainable_variables)
        scaling = as_loss_scaling(loss_scaling, matmul_dtype(self.objective.model))
        settings = StepSettings(
            self.objective,
            self.optimizer,
            self._rate or self.optimizer.rate,
            clip_norm,
            accumulation,
            steps_per_call,
            jit_compile,
            seed,
            loss_scale,
            layer_rates,
            scaling,
            remat,
        )
        self.engine = Engine(settings, self.strategy)
        self.workers = self.engine.workers
        # What the numbers of a run depend on; the learning rate is added when it starts.
        self._settings = {
            "optimizer": optimizer_settings(self.optimizer),
            "layer_rates": layer_rates
            and {"decay": layer_rates.decay, "frozen": layer_rates.frozen},
            "clip_norm": clip_norm,
            "accumulation": accumulation,
            "loss_scale": loss_scale,
            "loss_scaling": scaling and dataclasses.asdict(scaling),
            "seed": seed,
        }
        self._checkpoints = None
        if self.directory is not None:
            folder = joined(self.directory, "checkpoints")
            self._checkpoints = Checkpoints(folder, self.engine.variables(), keep)

    @property
    def step(self) -> int:
        """Updates made so far."""
        return self.engine.step

    @_raises_worker_lost
    def fit(
        self,
        data: StepData | Callable[[int], Any] | Iterator[Any] | tf.data.Dataset,
        steps: int,
        *,
        validation: Validation | None = None,
        evaluate_every: int | None = None,
        checkpoint_every: int | None = None,
        log_every: int | None = None,
        patience: int | None = None,
        monitor: str = "loss",
        callbacks: Sequence[keras.callbacks.Callback] = (),
        progress: bool = True,
        profile: tuple[int, int] | None = None,
    ) -> History:
        """Train until `steps` updates have been made, those of an earlier start included.

        A start continues from the newest whole checkpoint in the trainer's `directory`.

        Args:
            data: a function of the step, from 0, that returns its global batch, arrays of numpy by
                name; or an object with `batch_size` (of the global batch) and
                `dataset(first_step)`, a `tf.data.Dataset` of global batches that is a pure
                function of the step. Or an iterator of batches, or a `tf.data.Dataset` of them,
                which is repeated; a run that is resumed goes on with what the iterator has, or
                starts again at the dataset's first batch. All workers must get the same batches in
                the same order: shuffle with a seed. Arrays of numpy have the same shapes in all
                batches, but under JAX, which compiles a program for each shape.
            steps: total number of updates.
            validation: a finite iterable of batches; or a function without arguments that returns
                a dict of held-out values, floats by name; or None.
            evaluate_every: steps between evaluations (default: ten in the run).
            checkpoint_every: steps between checkpoints (default: as `evaluate_every`).
            log_every: steps that a row of the history averages (default: 200 rows a run).
            patience: stop after so many evaluations without a better `monitor`; None: never.
            monitor: a held-out value by its name in the logs, without `val_`; whether larger is
                better follows from the name, see `History.best_step`.
            callbacks: Keras callbacks, see `tfnlp.training.loop`; an "epoch" is the steps
                between two evaluations.
            progress: show a progress bar.
            profile: `(first, last)`: write a TensorFlow profile of the steps of this start that are
                between, see `Profile`.

        Returns:
            the `History`.

        Raises:
            ValueError: for other data; for a batch that does not divide by replicas times
                accumulation; if the directory holds a run with other settings or more steps; if
                the process has trained with another `MirroredStrategy`.
            FloatingPointError: if the loss is no longer a number, or the gradients of many updates
                in a row are not finite although the loss is scaled as little as it may be; the last
                checkpoint is from before that.
            BlockingIOError: if another process trains in the directory.
            KeyboardInterrupt: after SIGINT, SIGTERM or SIGHUP, with a checkpoint.
            WorkerLost: if another worker stopped; all continue from the last checkpoint when they
                are started again.
        """
        if steps < 1:
            raise ValueError(f"steps={steps} must be at least 1")
        if patience is not None and validation is None:
            raise ValueError("patience needs `validation` data to watch")
        use_mirrored(self.strategy)
        batches = Batches(data, self.objective)
        self._check_batch(batches.batch_size, self.accumulation)
        if self._rate is not None:
            self._settings["learning_rate"] = rate_settings(self._rate, steps)
        alone = contextlib.nullcontext()
        if self.directory is not None and self.workers.chief:
            alone = locked(self.directory, "directory")  # no other process writes there
        with alone:
            if self._checkpoints:
                if not batches.exact:
                    warnings.warn(_NO_EXACT_RESUME, stacklevel=3)
                check_settings(self.directory, self._checkpoints, jsonable(self._settings))
                self.restore()
                if self.step > steps:
                    raise ValueError(
                        f"{self.directory} holds a run of {self.step} steps, more than "
                        f"steps={steps}; choose another directory to start a new one"
                    )
            last = self.step if self.history.stopped_early(monitor, patience) else steps
            loop = Loop(
                self,
                steps,
                last,
                validation=validation,
                evaluate_every=evaluate_every,
                checkpoint_every=checkpoint_every,
                log_every=log_every,
                patience=patience,
                monitor=monitor,
                callbacks=callbacks,
                progress=progress,
                profile=profile,
            )
            self.objective.model.stop_training = False
            with optimizer_shown(self.objective.model, loop.optimizer):
                loop.callbacks.on_train_begin()
                iterator = None
                if loop.first < last:
                    iterator = self.engine.batches(batches, loop.first)
                interrupted = loop.run(iterator)
                self.engine.collect()
                loop.callbacks.on_train_end(loop.logs)
            if interrupted:
                saved = loop.saved
                kept = f"; a checkpoint of step {saved} is in {self.directory}" if saved else ""
                raise KeyboardInterrupt(f"stopped at step {self.step} of {last}{kept}")
            return self.history

    @_raises_worker_lost
    def evaluate(self, batches: Iterable[Any]) -> dict[str, float]:
        """Return held-out means over all batches, such as `{"loss": ..., "..._accuracy": ...}`.

        A measure without targets is left out; standard error says so.

        Raises:
            ValueError: if there is no batch, or one does not divide by the replicas; if the
                process has trained with another `MirroredStrategy`.
        """
        use_mirrored(self.strategy)
        if is_tf_dataset(batches):
            if batches.cardinality() == tf.data.INFINITE_CARDINALITY:
                raise ValueError("held-out data is an endless tf.data.Dataset; use take(count)")
        totals, state = {}, None
        for batch in batches:
            batch = self.objective.as_dict(batch)
            size = next(iter(batch.values())).shape[0]
            self._check_batch(size, 1)
            sums, state = self.engine.evaluate(batch, state)
            for name, value in sums.items():
                totals[name] = totals.get(name, 0.0) + float(value)
        if not totals:
            raise ValueError("there is nothing to evaluate on: no held-out batch was given")
        for name in without_targets(totals):
            say_once(f"held out: no target of {name}, which is not measured; give more text")
        return self.objective.report(means(totals))

    @_raises_worker_lost
    def restore(self, best: bool = False) -> int:
        """Load the newest whole checkpoint (or the best) and the run's history, if there is one.

        The best one has no state of the optimizer: `fit` goes on from the newest. Return the step
        it was written at, or 0.

        Raises:
            ValueError: if checkpoints are there and none can be read, or not every worker sees
                the same.
        """
        if self._checkpoints is None:
            raise ValueError("restore() needs a Trainer with a directory")
        state = self._checkpoints.restore_best() if best else self._checkpoints.restore_latest()
        if state is not None:
            state |= self._checkpoints.newest_state() if best else {}
            self.history = History(**state["history"])
        history = json.dumps(self.history.state(), sort_keys=True).encode()
        found = self.workers.gather(self.step, zlib.crc32(history))
        if (found != found[0]).any():
            steps = ", ".join(f"worker {i} that of step {row[0]}" for i, row in enumerate(found))
            raise ValueError(
                f"the workers read different checkpoints in {self.directory}: {steps}; it must be "
                "one folder that all of them see"
            )
        return self.step

    def save_checkpoint(self, best: bool = False) -> None:
        """Write a checkpoint, as the best one if `best`; all workers must call it."""
        self.engine.collect()
        if self.workers.chief:
            state = {"history": self.history.state(), "settings": jsonable(self._settings)}
            self._checkpoints.save(self.step, state, "best" if best else "step")
        self.workers.gather(self.step)  # no worker continues, or reads it, before it is whole

    def _check_batch(self, size: int | None, accumulation: int) -> None:
        replicas = self.engine.replicas
        parts = replicas * accumulation
        if parts > 1 and size is None:
            raise ValueError(
                f"data has batches of no fixed size, which {replicas} replicas x {accumulation} "
                "accumulated micro-batches can't share; use batch(size, drop_remainder=True)"
            )
        if parts > 1 and size % parts:
            raise ValueError(
                f"batch of {size} does not divide by {replicas} replicas x {accumulation} "
                f"accumulated micro-batches; use a multiple of {parts}"
            )

    def train_steps(self, iterator: Iterator[Any], count: Any) -> dict[str, Any]:
        """Run `count` steps on the next batches, without checkpoints; return the sums over them.

        The iterator is from `engine.batches`; StopIteration says that the data has ended.
        """
        return self.engine.train(iterator, count)


def _as_objective(objective: Any, loss: Any) -> Objective:
    """Return `objective`, or that of a Keras model and a loss."""
    if isinstance(objective, keras.Model) and loss is not None:
        return KerasObjective(objective, loss)
    if isinstance(objective, Objective) and loss is None:
        return objective
    raise ValueError(
        "objective must be a tfnlp.objectives.Objective without loss, or a keras.Model with loss, "
        f"not {type(objective).__name__} {'without' if loss is None else 'with'} loss"
    )
