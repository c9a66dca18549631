"""Training steps in TensorFlow, on any `tf.distribute` strategy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfnlp.training.batches import Batches, distribute, split_batch
from tfnlp.training.engines.step import Engine, StepSettings, Totals
from tfnlp.training.engines.tensorflow_step import Step
from tfnlp.training.graph_memory import freed_after_tracing
from tfnlp.training.monitor import timed_next
from tfnlp.training.workers import Workers


class TensorFlowEngine(Engine):
    """Runs steps on all replicas of a strategy."""

    def __init__(self, settings: StepSettings, strategy: tf.distribute.Strategy) -> None:
        count = tf.Variable(0, dtype="int64", trainable=False, name="step")
        super().__init__(settings, Workers(strategy), strategy.num_replicas_in_sync, count)
        self.strategy = strategy
        on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        self.body = Step(settings, self.replicas, on_tpu)

    def batches(self, data: Batches, first_step: int) -> Iterator[Any]:
        return iter(distribute(self.strategy, data, first_step))

    def train(self, iterator: Iterator[Any], count: int | tf.Tensor) -> Totals:
        if isinstance(count, int) and not (count == 1 == self.settings.steps_per_call):
            count = tf.constant(count)  # one graph, with a loop, for all counts
        try:
            return self._train(iterator, count)
        except tf.errors.OutOfRangeError as error:
            raise StopIteration from error

    def evaluate(self, batch: Mapping[str, Any], state: Any) -> tuple[Totals, Any]:
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
        scaling = {name: v.value.read_value() for name, v in self._scaling.items()}
        args = batch, self._count.read_value(), scaling
        with freed_after_tracing():
            totals = self.strategy.run(self.body.train, args=args)
        self._count.assign_add(1)
        # Every replica holds the same global sums.
        totals = {k: self.strategy.experimental_local_results(v)[0] for k, v in totals.items()}
        if scaling:
            scaling = self.settings.loss_scaling.following(scaling, totals["count/updates"] > 0)
            for name, value in scaling.items():
                self._scaling[name].value.assign(value)
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
