"""The training loop: steps, held-out evaluation, checkpoints, resume."""

import json
import math
import zlib

import keras
import tensorflow as tf

from tfnlp.training.checkpoints import Checkpoints, model_variables
from tfnlp.training.cluster.shares import distribute, split_batch
from tfnlp.training.cluster.workers import Workers, raises_worker_lost
from tfnlp.training.history import History
from tfnlp.training.interrupt import StopSignal
from tfnlp.training.monitor import Monitor, timed_next
from tfnlp.training.profile import Profile
from tfnlp.training.progress import Progress
from tfnlp.training.step import Step, means
from tfnlp.training.summaries import Summaries


class Trainer:
    """Trains a task, on one device or many, so that a killed run ends as if it had not been.

    Build the task's model inside `strategy.scope()`. Of several workers all do the same; the
    first one alone writes and shows progress, and all must see what it writes.

    Args:
        task: see `tfnlp.tasks`.
        optimizer: from `tfnlp.training.optimizers`.
        learning_rate: a float, or a function of the step (see `tfnlp.training.schedules`).
        strategy: a `tf.distribute.Strategy`; None takes the current one.
        clip_norm: clip the gradient, summed over replicas, to this global norm; None: don't.
        accumulation: micro-batches a step on each replica, for batches that memory can't hold.
        steps_per_call: steps that run in one call into TensorFlow.
        jit_compile: compile forward and backward pass with XLA.
        seed: of dropout.
        directory: where checkpoints and TensorBoard logs go; None keeps nothing.
        keep: how many of the last checkpoints to keep; the best is kept besides.
        loss_scale: the gradient is that of `loss_scale * loss`. Only the clipping and optimizers
            whose step depends on the gradient's size (Adagrad's first ones) notice.
        layer_rates: a `LayerRates`: rates by layer and frozen layers; None: one rate for all.

    Raises:
        ValueError: for arguments out of range.
    """

    def __init__(
        self,
        task,
        optimizer,
        learning_rate,
        *,
        strategy=None,
        clip_norm=1.0,
        accumulation=1,
        steps_per_call=1,
        jit_compile=False,
        seed=0,
        directory=None,
        keep=3,
        loss_scale=1.0,
        layer_rates=None,
    ):
        for name, value in (("accumulation", accumulation), ("steps_per_call", steps_per_call)):
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        if clip_norm is not None and clip_norm <= 0:
            raise ValueError(f"clip_norm={clip_norm} must be positive, or None for no clipping")
        self.task, self.optimizer = task, optimizer
        self.strategy = strategy or tf.distribute.get_strategy()
        self.accumulation, self.steps_per_call = accumulation, steps_per_call
        self.directory = None if directory is None else str(directory)
        self.workers = Workers(self.strategy)
        rate = learning_rate
        if not callable(rate):
            rate = lambda step: tf.constant(learning_rate, "float32")  # noqa: E731
        replicas = self.strategy.num_replicas_in_sync

        if layer_rates is not None:
            layer_rates.build(task.model)
        with self.strategy.scope():
            optimizer.build(task.model.trainable_variables)
        self._step = tf.Variable(0, dtype="int64", trainable=False, name="step")
        self._body = Step(
            task,
            optimizer,
            rate,
            clip_norm,
            accumulation,
            jit_compile,
            seed,
            replicas,
            loss_scale,
            layer_rates,
        )
        self.history = History()
        self._checkpoints = None
        if self.directory is not None:
            self._checkpoints = Checkpoints(
                tf.io.gfile.join(self.directory, "checkpoints"), self._saved_variables(), keep
            )

    @property
    def step(self):
        """Updates made so far."""
        return int(self._step)

    def _saved_variables(self):
        slots = {f"optimizer/{name}": v for name, v in self.optimizer.slots.items()}
        state = {f"state/{name}": v for name, v in self.task.state.items()}
        return {**model_variables(self.task.model), **slots, **state, "step": self._step}

    @raises_worker_lost
    def fit(
        self,
        data,
        steps,
        *,
        validation=None,
        evaluate_every=None,
        checkpoint_every=None,
        log_every=None,
        patience=None,
        monitor="loss",
        callbacks=(),
        progress=True,
        resume=True,
        profile=None,
    ):
        """Trains until `steps` updates have been made, those of an earlier run included.

        Args:
            data: has `batch_size` (of the global batch) and `dataset(first_step)`, a
                `tf.data.Dataset` of global batches that is a pure function of the step.
            steps: total number of updates.
            validation: a finite iterable of batches; or a function without arguments that returns
                a dict of held-out values, floats by name; or None.
            evaluate_every: steps between evaluations (default: ten in the run).
            checkpoint_every: steps between checkpoints (default: as `evaluate_every`).
            log_every: steps that a row of the history averages (default: 200 rows a run).
            patience: stop after so many evaluations without a better `monitor`; None: never.
            monitor: a held-out value by its name in the logs, without `val_`; whether larger is
                better follows from the name, see `History.best_step`.
            callbacks: Keras callbacks; an "epoch" is what lies between two evaluations.
            progress: show a progress bar.
            resume: continue from the newest whole checkpoint in `directory`.
            profile: `(first, last)`: write a TensorFlow profile of the steps of this start that are
                between, see `Profile`.

        Returns:
            the `History`.

        Raises:
            ValueError: for a batch that does not divide by replicas times accumulation.
            FloatingPointError: if the loss is no longer a number; the last checkpoint is from
                before that.
            WorkerLost: if another worker stopped; all go on from the last checkpoint when they
                are started again.
        """
        if steps < 1:
            raise ValueError(f"steps={steps} must be at least 1")
        if patience is not None and validation is None:
            raise ValueError("patience needs `validation` data to watch")
        self._check_batch(data.batch_size)
        evaluate_every = evaluate_every or max(1, math.ceil(steps / 10))
        checkpoint_every = checkpoint_every or evaluate_every
        log_every = log_every or max(1, steps // 200)
        if self._checkpoints and resume:
            self.restore()
        first = self.step
        profiled = Profile(self.directory, profile if self.workers.chief else None, first)
        if self.history.stopped_early(monitor, patience):
            steps = first
        callbacks = keras.callbacks.CallbackList(
            list(callbacks), add_history=False, add_progbar=False, model=self.task.model
        )
        self.task.model.stop_training = False
        callbacks.on_train_begin()
        iterator = iter(distribute(self.strategy, data, first)) if first < steps else None
        chief = self.workers.chief
        summaries = Summaries(self.directory if chief else None)
        shown = chief and (progress or self.directory is not None)
        speeds = Monitor(self.strategy, self.task.model, peak=shown)
        bar = Progress(first, steps, progress and chief)
        with StopSignal() as stop_signal, profiled, bar:
            saved, interrupted = first, False
            while (step := self.step) < steps:
                if step % evaluate_every == 0 or step == first:
                    callbacks.on_epoch_begin(step // evaluate_every)
                boundaries = (evaluate_every, checkpoint_every, log_every)
                stop_at = min(steps, step + self.steps_per_call)
                stop_at = min(stop_at, *((step // n + 1) * n for n in boundaries))
                callbacks.on_train_batch_begin(step)
                with profiled.of(step, stop_at), speeds:
                    count = stop_at - step
                    totals = self.train_steps(
                        iterator, 1 if self.steps_per_call == 1 else tf.constant(count)
                    )
                    totals = {name: float(value) for name, value in totals.items()}
                totals = speeds.take(totals)
                step = stop_at
                logs = self.task.report(means(totals))
                if not math.isfinite(logs["loss"]) or not math.isfinite(logs["gradient_norm"]):
                    raise FloatingPointError(
                        f"loss is {logs['loss']} and gradient norm {logs['gradient_norm']} at step "
                        f"{step}; lower the learning rate or lengthen the warm-up"
                    )
                callbacks.on_train_batch_end(step - 1, logs)
                bar.update(step, {**logs, **speeds.recent()})
                self.history.add(totals)
                if step % log_every == 0 or step == steps:
                    row = self.history.flush(step)
                    summaries.write("train", step, {**row, **speeds.row()})
                if step % evaluate_every == 0 or step == steps:
                    held_out = {}
                    if validation is not None:
                        held_out = self._held_out(validation)
                        self.history.add_validation(step, held_out)
                        summaries.write("validation", step, held_out)
                        bar.note(step, held_out)
                        if self._checkpoints and self.history.best_step(monitor) == step:
                            self._save(best=True)
                    logs.update({f"val_{k}": v for k, v in held_out.items()})
                    callbacks.on_epoch_end((step - 1) // evaluate_every, logs)
                # A worker that stopped alone would leave the others waiting for it.
                said = self.workers.gather(stop_signal.received, self.task.model.stop_training)
                interrupted, finished = said.any(axis=0)
                stopping = (
                    interrupted or finished or self.history.stopped_early(monitor, patience)
                )
                if self._checkpoints and (
                    stopping or step % checkpoint_every == 0 or step == steps
                ):
                    self._save()
                    saved = step
                if stopping:
                    break
        callbacks.on_train_end()
        if interrupted:
            kept = f"; a checkpoint of step {saved} is in {self.directory}" if saved else ""
            raise KeyboardInterrupt(f"stopped at step {self.step} of {steps}{kept}")
        return self.history

    def _held_out(self, validation):
        if callable(validation):
            return {name: float(value) for name, value in validation().items()}
        return self.evaluate(validation)

    @raises_worker_lost
    def evaluate(self, batches):
        """Held-out means over all batches: a dict such as `{"loss": ..., "..._accuracy": ...}`."""
        totals, state = {}, None
        for batch in batches:
            size = next(iter(batch.values())).shape[0]
            self._check_batch(size, accumulation=1)
            if state is None:
                state = {k: tf.zeros((size, *v.shape[1:])) for k, v in self.task.state.items()}
            sums, state = self._evaluate_batch(split_batch(self.strategy, batch), state)
            for name, value in sums.items():
                totals[name] = totals.get(name, 0.0) + float(value)
        if not totals:
            raise ValueError("there is nothing to evaluate on: no held-out batch was given")
        return self.task.report(means(totals))

    @raises_worker_lost
    def restore(self, best=False):
        """Loads the newest whole checkpoint (or the best) and its history, if there is one.

        Returns:
            the step it was written at, or 0.

        Raises:
            ValueError: if checkpoints are there and none can be read, or not every worker sees
                the same.
        """
        if self._checkpoints is None:
            raise ValueError("restore() needs a Trainer with a directory")
        state = (
            self._checkpoints.restore_best() if best else self._checkpoints.restore_latest()
        )
        if state is not None:
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

    def _save(self, best=False):
        if self.workers.chief:
            kind = "best" if best else "step"
            self._checkpoints.save(self.step, {"history": self.history.state()}, kind)
        self.workers.gather(self.step)  # no worker goes on, or reads it, before it is whole

    def _check_batch(self, size, accumulation=None):
        replicas = self.strategy.num_replicas_in_sync
        accumulation = self.accumulation if accumulation is None else accumulation
        if size % (replicas * accumulation):
            raise ValueError(
                f"batch of {size} does not divide by {replicas} replicas x {accumulation} "
                f"accumulated micro-batches; use a multiple of {replicas * accumulation}"
            )

    @tf.function(autograph=False)
    def train_steps(self, iterator, count):
        """Runs `count` steps on the next batches; returns the sums over them.

        Args:
            iterator: of distributed batches.
            count: int tensor; or 1, for a graph without a loop.
        """
        if isinstance(count, int) and count == 1:
            return self._one_step(iterator, after=())
        names = []

        def body(index, totals):
            more = self._one_step(iterator, after=[totals])
            names[:] = more
            # At first `totals` is one zero: how many there are shows when a step is traced.
            return index + 1, totals + tf.stack(list(more.values()))

        # Written out: AutoGraph would turn all that a step calls into other source code first,
        # which takes longer than tracing it.
        _, totals = tf.while_loop(
            lambda index, _: index < count,
            body,
            (tf.constant(0), tf.zeros([1])),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
        )
        return {name: totals[index] for index, name in enumerate(names)}

    def _one_step(self, iterator, after):
        batch, waited = timed_next(iterator, after)
        totals = self.strategy.run(self._body.train, args=(batch, self._step.read_value()))
        self._step.assign_add(1)
        # Every replica holds the same global sums.
        totals = {k: self.strategy.experimental_local_results(v)[0] for k, v in totals.items()}
        return {**totals, "work/waited": waited}

    # Without `reduce_retracing` there would be a trace for each length of its batches.
    @tf.function(reduce_retracing=True, autograph=False)
    def _evaluate_batch(self, batch, state):
        # Every replica returns the same global sums and states.
        results = self.strategy.run(self._body.evaluate, args=(batch, state))
        return tf.nest.map_structure(
            lambda x: self.strategy.experimental_local_results(x)[0], results
        )
