"""One training step in TensorFlow, the same code on one device and on many.

The order makes the numbers independent of how the batch is split: targets are counted over the
global batch; every replica takes gradients of its share of `sum of losses / global count`,
micro-batch by micro-batch; gradients are summed over replicas; only then is their global norm
clipped; only then is the update applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfnlp.layers.kernels.backend import traced_for_tpu
from tfnlp.layers.remat import rematerialization
from tfnlp.training.batches import split_rows
from tfnlp.training.engines.step import (
    StepSettings,
    clip_scale,
    compared_part,
    comparison,
    evaluation_sums,
    micro_batch_loss,
    target_counts,
)
from tfnlp.training.keras_optimizer import KerasOptimizer
from tfnlp.training.optimizer_base import Gradient, Optimizer
from tfnlp.training.randomness import layer_seeds, step_seed, without_seeds, write_back

Tensors = dict[str, tf.Tensor]


class Step:
    """Training and evaluation of one global batch, for `strategy.run`.

    The settings' optimizer is built. For a TPU some layers have another form.
    """

    def __init__(self, settings: StepSettings, replicas: int, for_tpu: bool = False) -> None:
        self.objective, self.model = settings.objective, settings.objective.model
        self.optimizer, self.rate = settings.optimizer, settings.rate
        self.clip_norm, self.accumulation = settings.clip_norm, settings.accumulation
        self.seed, self.loss_scale, self.replicas = settings.seed, settings.loss_scale, replicas
        self.layer_rates, self.loss_scaling = settings.layer_rates, settings.loss_scaling
        jit_compile = settings.jit_compile
        self.trims = self.objective.trims and self.accumulation > 1 and not jit_compile
        self._for_tpu, self._remat = for_tpu, settings.remat
        # Sums over replicas and micro-batches, XLA and masks by layer need dense tensors.
        self.rows = (
            self.optimizer.takes_rows
            and replicas == self.accumulation == 1
            and not jit_compile
            and self.layer_rates is None
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

        The batch is this replica's share; `scaling` is the state of the `LossScaling`, if any.
        """
        if self.loss_scaling is not None:
            return self._scaled_step(batch, step, scaling)
        gradients, totals, state = self._summed(batch, step, self.loss_scale)
        norm, rate, update = self._prepared(gradients, step, step)
        update()
        self._keep(state)
        totals.update({"sum/gradient_norm": norm, "sum/learning_rate": rate, "steps": 1.0})
        return {name: tf.cast(value, "float32") for name, value in totals.items()}

    def _scaled_step(self, batch: Tensors, step: tf.Tensor, scaling: Tensors) -> Tensors:
        """Do as `train`, with a scaled loss; change nothing where a gradient is not finite."""
        scale = scaling["scale"]
        layers = layer_variables(self.model)
        before = [v.read_value() for v in layers]
        state_before = {name: v.value.read_value() for name, v in self.objective.state.items()}
        gradients, totals, state = self._summed(batch, step, self.loss_scale * scale)
        gradients = [_scaled(g, tf.cast(1.0 / scale, g.dtype)) for g in gradients]
        # Updates that were skipped count for the data and the learning rate alone.
        updates = step - tf.cast(scaling["skipped"], step.dtype)
        norm, rate, update = self._prepared(gradients, step, updates)
        finite = tf.math.is_finite(norm)
        update_if(finite, update, self.optimizer, self.replicas)
        restore(tf.logical_not(finite), layers, before, self.replicas)
        self._keep({name: tf.where(finite, x, state_before[name]) for name, x in state.items()})
        totals = self.loss_scaling.totals(totals, scaling, finite, norm)
        totals.update({"sum/learning_rate": rate, "steps": 1.0})
        return {name: tf.cast(value, "float32") for name, value in totals.items()}

    def _summed(
        self, batch: Tensors, step: tf.Tensor, scale: float | tf.Tensor
    ) -> tuple[list[Gradient], Tensors, Tensors]:
        """Return gradients, sums and counts over all replicas, and the state of all rows."""
        context = tf.distribute.get_replica_context()
        counts = self._reduce(self.objective.targets(batch))
        replica = context.replica_id_in_sync_group
        state = {name: v.value.read_value() for name, v in self.objective.state.items()}
        batch = {**batch, **self._rows(state, batch)}
        if self.objective.compares and self.replicas * self.accumulation > 1:
            whole = self._all_rows(self._compared(batch, step, replica))
            batch = {**batch, **self._rows(comparison(self.objective, whole), batch)}
        gradients, sums, state = self._gradients(batch, counts, step, replica, scale)
        gradients = self._reduce(gradients)
        totals = {**self._reduce(sums), **target_counts(counts)}
        return gradients, totals, self._all_rows(state)

    def _prepared(
        self, gradients: list[Gradient], step: tf.Tensor, updates: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, Callable[[], None]]:
        """Return the global norm, the learning rate and a function that updates the weights.

        Gradients are summed over replicas; `updates` were made before this one.
        """
        norm = tf.linalg.global_norm(gradients)
        if self.clip_norm is not None:
            scale = clip_scale(norm, self.clip_norm)
            gradients = [_scaled(g, tf.cast(scale, g.dtype)) for g in gradients]
        rate = self.rate(step)
        rates = rate if self.layer_rates is None else self.layer_rates.rates(rate)
        return norm, rate, lambda: self.optimizer.apply(gradients, rates, updates)

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

    def _keep(self, state: Tensors) -> None:
        """Assign the state of all rows on every replica."""
        if self.replicas == 1:
            for name, value in state.items():
                self.objective.state[name].value.assign(value)
        elif state:
            variables = [self.objective.state[name].value for name in state]
            tf.distribute.get_replica_context().merge_call(
                assign, args=(variables, list(state.values()))
            )

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
        if self.accumulation == 1:
            return self._micro_compared(batch, step, 0, replica)
        parts = {k: split_rows(v, self.accumulation) for k, v in batch.items()}  # [A, B/A, ...]

        def body(index: tf.Tensor, found: Tensors) -> tuple[Any, ...]:
            part = {k: v[index] for k, v in parts.items()}
            new = self._micro_compared(part, step, index, replica)
            return index + 1, {k: _with_part(x, index, new[k]) for k, x in found.items()}

        new = self._micro_compared({k: v[0] for k, v in parts.items()}, step, 0, replica)
        shapes = {k: tf.concat([[self.accumulation], tf.shape(x)], 0) for k, x in new.items()}
        found = {k: _with_part(tf.zeros(shapes[k], x.dtype), 0, x) for k, x in new.items()}
        _, found = tf.while_loop(
            lambda index, _: index < self.accumulation,
            body,
            (tf.constant(1), found),
            maximum_iterations=self.accumulation - 1,
        )
        return {k: _joined(x, new[k].shape[1:]) for k, x in found.items()}

    def _micro_compared(
        self, batch: Tensors, step: tf.Tensor, micro_batch: Any, replica: tf.Tensor
    ) -> Tensors:
        """Return what losses compare of one micro-batch, with the draws of its gradients."""
        if self.trims:
            batch = self.objective.trimmed(batch)
        seeds = layer_seeds(self.model, step_seed(self.seed, step, micro_batch, replica))
        with traced_for_tpu(self._for_tpu), rematerialization(self._remat):
            return compared_part(self.objective, batch, seeds)

    def _all_gradients(
        self,
        batch: Tensors,
        counts: Tensors,
        step: tf.Tensor,
        replica: tf.Tensor,
        scale: float | tf.Tensor,
    ) -> tuple[list[Gradient], Tensors, Tensors]:
        """Return gradients, sums and new state of this replica's share, all micro-batches."""
        if self.accumulation == 1:
            return self._micro_gradients(batch, counts, step, 0, replica, scale)
        parts = {k: split_rows(v, self.accumulation) for k, v in batch.items()}  # [A, B/A, ...]

        def body(
            index: tf.Tensor, gradients: list[tf.Tensor], sums: Tensors, state: Tensors
        ) -> tuple[Any, ...]:
            part = {k: v[index] for k, v in parts.items()}
            more, more_sums, new = self._part(part, counts, step, index, replica, scale)
            return (
                index + 1,
                [a + b for a, b in zip(gradients, more, strict=True)],
                {k: sums[k] + more_sums[k] for k in sums},
                {k: _with_part(x, index, new[k]) for k, x in state.items()},
            )

        part = {k: v[0] for k, v in parts.items()}
        gradients, sums, new = self._part(part, counts, step, tf.constant(0), replica, scale)
        state = {k: _with_part(tf.zeros_like(parts[k]), 0, x) for k, x in new.items()}
        _, gradients, sums, state = tf.while_loop(
            lambda index, *_: index < self.accumulation,
            body,
            (tf.constant(1), gradients, sums, state),
            maximum_iterations=self.accumulation - 1,
        )
        state = {k: tf.reshape(x, tf.shape(batch[k])) for k, x in state.items()}  # [B, ...]
        return gradients, sums, state

    def _micro_gradients(
        self,
        batch: Tensors,
        counts: Tensors,
        step: tf.Tensor,
        micro_batch: Any,
        replica: tf.Tensor,
        scale: float | tf.Tensor,
    ) -> tuple[list[Gradient], Tensors, Tensors]:
        """Return gradients, sums and new state of one micro-batch."""
        if self.trims:
            batch = self.objective.trimmed(batch)
        seeds = layer_seeds(self.model, step_seed(self.seed, step, micro_batch, replica))
        parts = self.replicas * self.accumulation
        variables = [v.value for v in self.model.trainable_variables]
        with traced_for_tpu(self._for_tpu), rematerialization(self._remat):
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
        return gradients, sums, state


def _joined(x: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """Return `[A, b, ...]` as `[A b, ...]`, of which the last axes have the lengths of `shape`."""
    flat = tf.reshape(x, tf.concat([[-1], tf.shape(x)[2:]], 0))
    return tf.ensure_shape(flat, [None, *shape])


def sum_rows(gradient: Gradient) -> Gradient:
    """Return a gradient in which no row comes twice, in the order of first rows; or a dense one."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def _scaled(gradient: Gradient, scale: tf.Tensor) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * scale, gradient.indices, gradient.dense_shape)
    return gradient * scale


def _with_part(x: tf.Tensor, index: Any, part: tf.Tensor) -> tf.Tensor:
    """Return `x` `[A, ...]` with `part` at `index`."""
    return tf.tensor_scatter_nd_update(x, [[index]], part[None])


def layer_variables(model: keras.Model) -> list[tf.Variable]:
    """Return what the layers of a model may assign in a step, such as running averages."""
    return [v.value for v in without_seeds(model.non_trainable_variables)]


def update_if(
    condition: tf.Tensor,
    update: Callable[[], None],
    optimizer: Optimizer | KerasOptimizer,
    replicas: int,
) -> None:
    """Call `update`, which applies gradients with `optimizer`, if the condition holds.

    It is a bool scalar, the same on all replicas. `update` is called in replica context.
    """
    if replicas == 1:

        def made() -> tf.Tensor:
            update()
            return tf.constant(True)

        tf.cond(condition, made, lambda: tf.constant(False))
        return
    variables = [v.value for v in [*optimizer.variables, *optimizer.slots.values()]]
    before = [v.read_value() for v in variables]
    update()
    restore(tf.logical_not(condition), variables, before, replicas)


def restore(
    condition: tf.Tensor,
    variables: Sequence[tf.Variable],
    values: Sequence[tf.Tensor],
    replicas: int,
) -> None:
    """Assign to variables of the strategy this replica's values if the condition holds.

    It is a bool scalar, the same on all replicas.
    """
    if not variables:
        return
    if replicas == 1:

        def assigned() -> tf.Tensor:
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
            return tf.constant(True)

        tf.cond(condition, assigned, lambda: tf.constant(False))
        return
    chosen = [
        tf.where(condition, value, variable.read_value())
        for variable, value in zip(variables, values, strict=True)
    ]
    tf.distribute.get_replica_context().merge_call(assign, args=(list(variables), chosen))


def assign(
    strategy: tf.distribute.Strategy, variables: list[tf.Variable], values: list[tf.Tensor]
) -> None:
    """Assign a value to each variable on every replica; for `merge_call`."""
    for variable, value in zip(variables, values, strict=True):
        strategy.extended.update(variable, lambda v, x: v.assign(x), args=(value,), group=False)
