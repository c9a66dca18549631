"""Training in TensorFlow, on any `tf.distribute` strategy: the same code on one device and on many.

The order makes the numbers independent of how the batch is split: targets are counted over the
global batch; every replica takes gradients of its share of `sum of losses / global count`,
micro-batch by micro-batch; gradients are summed over replicas; only then is their global norm
clipped; only then is the update applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfnlp.layers.kernels.backend import traced_for_tpu
from tfnlp.layers.remat import rematerialization
from tfnlp.training.batches import Batches, distribute, split_batch, split_rows
from tfnlp.training.engines.step import (
    Engine,
    StepSettings,
    Totals,
    clip_scale,
    compared_part,
    comparison,
    evaluation_sums,
    micro_batch_loss,
    target_counts,
)
from tfnlp.training.graph_memory import freed_after_tracing
from tfnlp.training.monitor import timed_next
from tfnlp.training.optimizer_base import Gradient
from tfnlp.training.randomness import layer_seeds, step_seed, without_seeds, write_back
from tfnlp.training.workers import Workers

Tensors = dict[str, tf.Tensor]


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


class Step:
    """Training and evaluation of one global batch, for `strategy.run`.

    The settings' optimizer is built. For a TPU some layers have another form.
    """

    def __init__(self, settings: StepSettings, replicas: int, for_tpu: bool = False) -> None:
        self.settings, self.objective, self.replicas = settings, settings.objective, replicas
        self.model, self._for_tpu = settings.objective.model, for_tpu
        jit_compile, alone = settings.jit_compile, replicas == settings.accumulation == 1
        self.trims = self.objective.trims and settings.accumulation > 1 and not jit_compile
        # Sums over replicas and micro-batches, XLA and masks by layer need dense tensors.
        self.rows = (
            settings.optimizer.takes_rows
            and alone
            and not jit_compile
            and settings.layer_rates is None
        )
        self._part = self._micro_gradients
        if self.trims:
            # Inlined into two loops, TensorFlow's temporary sums of unknown shapes get in each
            # other's way (AlreadyExistsError of a `tmp_var`).
            self._part = tf.function(
                self._part, autograph=False, experimental_attributes={"_noinline": True}
            )
        # Communication between replicas can't be compiled; the arithmetic before it can.
        parts = self._all_gradients, self._evaluation_sums, self._all_compared
        if jit_compile or replicas > 1:  # traced once for all replicas
            parts = (
                tf.function(part, jit_compile=jit_compile or None, autograph=False)
                for part in parts
            )
        self._gradients, self._sums, self._compared = parts

    def train(self, batch: Tensors, step: tf.Tensor, scaling: Tensors | None = None) -> Tensors:
        """Update the weights; return global sums and counts as a dict of float32 scalars.

        The batch is this replica's share; `scaling` is the state of the `LossScaling`, if any: then
        nothing changes where a gradient is not finite.
        """
        settings, scale, updates = self.settings, self.settings.loss_scale, step
        state_before = {name: v.value.read_value() for name, v in self.objective.state.items()}
        if scaling:
            scale = scale * scaling["scale"]
            kept = [v.value for v in without_seeds(self.model.non_trainable_variables)]
            if self.replicas > 1:  # what is in a condition can't be communicated
                kept += [v.value for v in settings.optimizer.variables]
                kept += [v.value for v in settings.optimizer.slots.values()]
            before = [v.read_value() for v in kept]
        gradients, totals, state = self._summed(batch, step, scale, state_before)
        if scaling:
            gradients = _scaled(gradients, 1.0 / scaling["scale"])
            # Updates that were skipped count for the data and the learning rate alone.
            updates = step - tf.cast(scaling["skipped"], step.dtype)
        norm = tf.linalg.global_norm(gradients)
        if settings.clip_norm is not None:
            gradients = _scaled(gradients, clip_scale(norm, settings.clip_norm))
        rate = settings.rate(step)
        rates = rate if settings.layer_rates is None else settings.layer_rates.rates(rate)

        def update() -> tf.Tensor:
            settings.optimizer.apply(gradients, rates, updates)
            return tf.constant(True)

        if scaling:
            finite = tf.math.is_finite(norm)
            if self.replicas > 1:
                update()
            else:
                tf.cond(finite, update, lambda: tf.constant(False))
            after = [v.read_value() for v in kept]
            pairs = zip(after, before, strict=True)
            self._assign(kept, [tf.where(finite, new, old) for new, old in pairs])
            state = {name: tf.where(finite, x, state_before[name]) for name, x in state.items()}
            totals = settings.loss_scaling.totals(totals, scaling, finite, norm)
        else:
            update()
            totals["sum/gradient_norm"] = norm
        self._assign([self.objective.state[name].value for name in state], list(state.values()))
        totals.update({"sum/learning_rate": rate, "steps": 1.0})
        return {name: tf.cast(value, "float32") for name, value in totals.items()}

    def _summed(
        self, batch: Tensors, step: tf.Tensor, scale: float | tf.Tensor, state: Tensors
    ) -> tuple[list[Gradient], Tensors, Tensors]:
        """Return gradients, sums and counts over all replicas, and the state of all rows."""
        counts = self._reduce(self.objective.targets(batch))
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        batch = {**batch, **self._rows(state, batch)}
        if self.objective.compares and self.replicas * self.settings.accumulation > 1:
            whole = self._all_rows(self._compared(batch, step, replica))
            batch = {**batch, **self._rows(comparison(self.objective, whole), batch)}
        gradients, sums, state = self._gradients(batch, counts, step, replica, scale)
        gradients = self._reduce(gradients)
        totals = {**self._reduce(sums), **target_counts(counts)}
        return gradients, totals, self._all_rows(state)

    def evaluate(self, batch: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
        """Return the sums and counts of one global batch, without dropout, and the new state.

        The batch is this replica's share; `state`, `[B, ...]` of the global batch, is that after
        the batch before.
        """
        totals = target_counts(self.objective.targets(batch))
        sums, state = self._sums({**batch, **self._rows(state, batch)})
        return self._reduce({**totals, **sums}), self._all_rows(state)

    def _rows(self, state: Tensors, batch: Tensors) -> Tensors:
        """Return the rows of `state` that belong to this replica's share of the batch."""
        if self.replicas == 1:
            return state
        size = tf.shape(next(iter(batch.values())))[0]
        first = tf.distribute.get_replica_context().replica_id_in_sync_group * size
        return {name: x[first : first + size] for name, x in state.items()}

    def _all_rows(self, state: Tensors) -> Tensors:
        """Return the rows of all replicas, in order."""
        if self.replicas == 1:
            return state
        context = tf.distribute.get_replica_context()
        return {name: context.all_gather(x, axis=0) for name, x in state.items()}

    def _assign(self, variables: list[tf.Variable], values: list[tf.Tensor]) -> None:
        """Assign a value to each variable on every replica."""
        if self.replicas == 1:
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        elif variables:
            context = tf.distribute.get_replica_context()
            context.merge_call(_assign_everywhere, args=(variables, values))

    def _reduce(self, values: Any) -> Any:
        if self.replicas == 1:
            return values
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _evaluation_sums(self, batch: Tensors) -> tuple[Tensors, Tensors]:
        with traced_for_tpu(self._for_tpu):
            return evaluation_sums(self.objective, batch)

    def _all_compared(self, batch: Tensors, step: tf.Tensor, replica: tf.Tensor) -> Tensors:
        """Return what losses compare of this replica's share, all micro-batches: `[b, ...]`."""

        def compared(part: Tensors, index: Any) -> tuple[tuple[()], Tensors]:
            part, seeds = self._drawn(part, step, index, replica)
            with traced_for_tpu(self._for_tpu), rematerialization(self.settings.remat):
                return (), compared_part(self.objective, part, seeds)

        return _over_parts(compared, batch, self.settings.accumulation)[1]

    def _all_gradients(
        self,
        batch: Tensors,
        counts: Tensors,
        step: tf.Tensor,
        replica: tf.Tensor,
        scale: float | tf.Tensor,
    ) -> tuple[list[Gradient], Tensors, Tensors]:
        """Return gradients, sums and new state of this replica's share, all micro-batches."""
        parts = self.settings.accumulation
        micro = self._micro_gradients if parts == 1 else self._part
        (gradients, sums), state = _over_parts(
            lambda part, index: micro(part, counts, step, index, replica, scale), batch, parts
        )
        return gradients, sums, state

    def _micro_gradients(
        self,
        batch: Tensors,
        counts: Tensors,
        step: tf.Tensor,
        micro_batch: Any,
        replica: tf.Tensor,
        scale: float | tf.Tensor,
    ) -> tuple[tuple[list[Gradient], Tensors], Tensors]:
        """Return gradients and sums, and the new state, of one micro-batch."""
        batch, seeds = self._drawn(batch, step, micro_batch, replica)
        parts = self.replicas * self.settings.accumulation
        variables = [v.value for v in self.model.trainable_variables]
        with traced_for_tpu(self._for_tpu), rematerialization(self.settings.remat):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                loss, sums, state, scope = micro_batch_loss(
                    self.objective, batch, counts, seeds, parts, scale
                )
            gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        write_back(self.model, scope)
        # An embedding's gradient has rows, and the same row several times. The norm and the squares
        # must be those of the sum of equal rows: a dense tensor has it, and so has `sum_rows`.
        gradients = [sum_rows(g) if self.rows else tf.convert_to_tensor(g) for g in gradients]
        tokens = self.objective.tokens(batch)
        if tokens is not None:
            sums = {**sums, "work/tokens": tokens}
        return (gradients, sums), state

    def _drawn(
        self, batch: Tensors, step: tf.Tensor, micro_batch: Any, replica: tf.Tensor
    ) -> tuple[Tensors, list[tf.Tensor]]:
        """Return a micro-batch as it is computed, and the seeds of its random layers."""
        if self.trims:
            batch = self.objective.trimmed(batch)
        seed = step_seed(self.settings.seed, step, micro_batch, replica)
        return batch, layer_seeds(self.model, seed)


def _over_parts(
    function: Callable[[Tensors, Any], tuple[Any, Tensors]], batch: Tensors, count: int
) -> tuple[Any, Tensors]:
    """Return the results of `function(part, index)` of the parts of a batch.

    The first ones summed; of the second ones, dicts of `[b, ...]`, all rows.
    """
    if count == 1:
        return function(batch, 0)
    parts = {k: split_rows(v, count) for k, v in batch.items()}  # [A, B/A, ...]

    def body(index: tf.Tensor, sums: Any, rows: Tensors) -> tuple[Any, ...]:
        more, new = function({k: v[index] for k, v in parts.items()}, index)
        rows = {k: _with_part(x, index, new[k]) for k, x in rows.items()}
        return index + 1, tf.nest.map_structure(tf.add, sums, more), rows

    sums, new = function({k: v[0] for k, v in parts.items()}, tf.constant(0))
    shapes = {k: tf.concat([[count], tf.shape(x)], 0) for k, x in new.items()}
    rows = {k: _with_part(tf.zeros(shapes[k], x.dtype), 0, x) for k, x in new.items()}
    _, sums, rows = tf.while_loop(
        lambda index, *_: index < count,
        body,
        (tf.constant(1), sums, rows),
        maximum_iterations=count - 1,
    )
    flat = {k: tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], 0)) for k, x in rows.items()}
    return sums, {k: tf.ensure_shape(x, [None, *new[k].shape[1:]]) for k, x in flat.items()}


def sum_rows(gradient: Gradient) -> Gradient:
    """Return a gradient in which no row comes twice, in the order of first rows; or a dense one."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _scaled(gradients: Sequence[Gradient], scale: tf.Tensor) -> list[Gradient]:
    return [
        tf.IndexedSlices(g.values * tf.cast(scale, g.dtype), g.indices, g.dense_shape)
        if isinstance(g, tf.IndexedSlices)
        else g * tf.cast(scale, g.dtype)
        for g in gradients
    ]


def _with_part(x: tf.Tensor, index: Any, part: tf.Tensor) -> tf.Tensor:
    """Return `x` `[A, ...]` with `part` at `index`."""
    return tf.tensor_scatter_nd_update(x, [[index]], part[None])


def _assign_everywhere(
    strategy: tf.distribute.Strategy, variables: list[tf.Variable], values: list[tf.Tensor]
) -> None:
    for variable, value in zip(variables, values, strict=True):
        strategy.extended.update(variable, lambda v, x: v.assign(x), args=(value,), group=False)
