"""Training steps in TensorFlow, on any `tf.distribute` strategy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfnlp.training.batches import Batches, distribute, split_batch
from tfnlp.training.checkpoints import model_variables
from tfnlp.training.engines.step import StepSettings, Totals
from tfnlp.training.engines.tensorflow_step import Step
from tfnlp.training.graph_memory import freed_after_tracing
from tfnlp.training.monitor import timed_next
from tfnlp.training.workers import Workers


class TensorFlowEngine:
    """See `tfnlp.training.engines.Engine`; the settings' optimizer is built."""

    def __init__(self, settings: StepSettings, strategy: tf.distribute.Strategy) -> None:
        self.strategy, self.workers = strategy, Workers(strategy)
        self.replicas = strategy.num_replicas_in_sync
        self._objective, self._optimizer = settings.objective, settings.optimizer
        self._one_a_call = settings.steps_per_call == 1
        self._step = tf.Variable(0, dtype="int64", trainable=False, name="step")
        on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        self.body = Step(settings, self.replicas, on_tpu)
        self._loss_scaling = settings.loss_scaling
        self._scaling = {}
        if self._loss_scaling is not None:
            state = self._loss_scaling.variables()
            self._scaling = {name: v.value for name, v in state.items()}

    @property
    def step(self) -> int:
        """Updates made so far."""
        return int(self._step)

    def variables(self) -> dict[str, tf.Variable]:
        """Return what a checkpoint keeps, by name."""
        slots = {f"optimizer/{name}": v.value for name, v in self._optimizer.slots.items()}
        state = {f"state/{name}": v.value for name, v in self._objective.state.items()}
        scaling = {f"loss_scaling/{name}": v for name, v in self._scaling.items()}
        model = model_variables(self._objective.model)
        return {**model, **slots, **state, **scaling, "step": self._step}

    def collect(self) -> None:
        """Do nothing: every worker has all variables."""

    def batches(self, data: Batches, first_step: int) -> Iterator[Any]:
        """Return the batches from `first_step` on, each split into one value a replica."""
        return iter(distribute(self.strategy, data, first_step))

    def train(self, iterator: Iterator[Any], count: int | tf.Tensor) -> Totals:
        """Make `count` updates in one call; return the sums over them.

        StopIteration says that there is no batch left.
        """
        if isinstance(count, int) and not (count == 1 and self._one_a_call):
            count = tf.constant(count)  # one graph, with a loop, for all counts
        try:
            return self._train(iterator, count)
        except tf.errors.OutOfRangeError as error:
            raise StopIteration from error

    def evaluate(self, batch: Mapping[str, Any], state: Any) -> tuple[Totals, Any]:
        """Return the sums of a global held-out batch, and the state for the next one."""
        if state is None:
            size = next(iter(batch.values())).shape[0]
            state = {k: tf.zeros((size, *v.shape[1:])) for k, v in self._objective.state.items()}
        return self.evaluate_batch(split_batch(self.strategy, batch), state)

    @tf.function(autograph=False)
    def _train(self, iterator: Iterator[Any], count: int | tf.Tensor) -> Totals:
        if isinstance(count, int):  # 1
            return self._one_step(iterator, after=())
        names = []

        def body(index: tf.Tensor, totals: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            more = self._one_step(iterator, after=[totals])
            names[:] = more
            # At first `totals` is one zero: how many there are is known once a step is traced.
            return index + 1, totals + tf.stack(list(more.values()))

        # Written out: AutoGraph would first transform the source code of all functions that a step
        # calls, which takes longer than tracing it.
        _, totals = tf.while_loop(
            lambda index, _: index < count,
            body,
            (tf.constant(0), tf.zeros([1])),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
        )
        return {name: totals[index] for index, name in enumerate(names)}

    def _one_step(self, iterator: Iterator[Any], after: Sequence[tf.Tensor]) -> Totals:
        batch, waited = timed_next(iterator, after)
        scaling = {name: v.read_value() for name, v in self._scaling.items()}
        args = (batch, self._step.read_value(), *([scaling] if scaling else []))
        with freed_after_tracing():
            totals = self.strategy.run(self.body.train, args=args)
        self._step.assign_add(1)
        # Every replica holds the same global sums.
        totals = {k: self.strategy.experimental_local_results(v)[0] for k, v in totals.items()}
        if scaling:
            state = self._loss_scaling.following(scaling, totals["count/updates"] > 0)
            for name, value in state.items():
                self._scaling[name].assign(value)
        return {**totals, "work/waited": waited}

    # Without `reduce_retracing` there would be a trace for each length of its batches.
    @tf.function(reduce_retracing=True, autograph=False)
    def evaluate_batch(self, batch: dict[str, Any], state: dict[str, tf.Tensor]) -> Any:
        """Return what `evaluate` returns, of a batch split into one value a replica."""
        # Every replica returns the same global sums and states.
        with freed_after_tracing():
            results = self.strategy.run(self.body.evaluate, args=(batch, state))
        return tf.nest.map_structure(
            lambda x: self.strategy.experimental_local_results(x)[0], results
        )
