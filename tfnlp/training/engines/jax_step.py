"""One training step as a pure function of arrays, for JAX.

The order of `engines.tensorflow`: targets are counted over the global batch; every device takes
gradients of its share, micro-batch by micro-batch; they are summed over the devices, then clipped,
then applied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import keras
from jax import lax
from jax import numpy as jnp

from tfnlp.layers.remat import rematerialization
from tfnlp.training.engines.jax_devices import AXIS, ROWS, SHARED, JaxDevices
from tfnlp.training.engines.step import (
    StepSettings,
    clip_scale,
    compared_part,
    comparison,
    evaluation_sums,
    global_norm,
    micro_batch_loss,
    target_counts,
)
from tfnlp.training.randomness import seed_variables, without_seeds

Arrays = dict[str, jax.Array]


class Values(NamedTuple):
    """The values of all variables that a step changes."""

    weights: list[Any]  # of the trainable variables
    others: list[Any]  # of the other variables of the model, seeds left out
    slots: dict[str, Any]
    state: dict[str, Any]  # [B, ...]
    scaling: dict[str, Any]  # of the loss, see `LossScaling`; empty without one


class JaxStep:
    """Training and evaluation of one global batch; the settings' optimizer is built."""

    def __init__(self, settings: StepSettings, devices: JaxDevices) -> None:
        self.settings, self.devices = settings, devices
        self.objective = settings.objective
        model = settings.objective.model
        self.weights = model.trainable_variables
        self.others = without_seeds(model.non_trainable_variables)
        self._seeds = len(seed_variables(model))
        self._sum_names: list[str] = []
        self.names: list[str] = []  # of the totals of `train`, in the objective's order
        self.held_out_names: list[str] = []  # and of `evaluate`

    def train(
        self, values: Values, tables: list[jax.Array], batch: Arrays, step: jax.Array
    ) -> tuple[Values, Arrays]:
        """Return the new values, and global sums and counts as float32 scalars.

        `values` are those before the step, `step`, an int32 scalar, the updates before it.
        """
        settings = self.settings
        loss_scaling, scaling = settings.loss_scaling, values.scaling
        scale = settings.loss_scale * scaling.get("scale", 1.0)
        counts = self.objective.targets(batch)
        gradients, others, state, sums = jax.shard_map(
            self._gradients,
            mesh=self.devices.mesh,
            in_specs=(SHARED, SHARED, ROWS, SHARED, ROWS, SHARED, SHARED, SHARED),
            out_specs=(SHARED, SHARED, ROWS, SHARED),
            check_vma=False,
        )(values.weights, values.others, values.state, tables, batch, counts, step, scale)
        updates = step  # made before this one
        if loss_scaling is not None:
            gradients = [g * (1.0 / scaling["scale"]).astype(g.dtype) for g in gradients]
            updates = step - scaling["skipped"]
        norm = global_norm(gradients)
        if settings.clip_norm is not None:
            scale = clip_scale(norm, settings.clip_norm)
            gradients = [g * scale.astype(g.dtype) for g in gradients]
        slots = [(v, values.slots[name]) for name, v in settings.optimizer.slots.items()]
        with keras.StatelessScope(state_mapping=slots):  # a Keras optimizer may hold its own rate
            rate = settings.rate(step)
        rates = rate if settings.layer_rates is None else settings.layer_rates.rates(rate)
        weights, slots = settings.optimizer.updated(
            values.weights, values.slots, gradients, rates, updates
        )
        sums = {name: sums[name] for name in self._sum_names}  # the objective's order; JAX sorts
        totals = {**sums, **target_counts(counts)}
        new = Values(weights, others, slots, state, scaling)
        if loss_scaling is None:
            totals["sum/gradient_norm"] = norm
        else:
            finite = jnp.isfinite(norm)
            new = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, values)
            new = new._replace(scaling=loss_scaling.following(scaling, finite))
            totals = loss_scaling.totals(totals, scaling, finite, norm)
        totals.update({"sum/learning_rate": rate, "steps": 1.0})
        tokens = self.objective.tokens(batch)
        if tokens is not None:
            totals["work/tokens"] = tokens
        self.names = list(totals)
        totals = {name: jnp.asarray(value, "float32") for name, value in totals.items()}
        return new, totals

    def evaluate(
        self, values: Values, tables: list[jax.Array], batch: Arrays, state: Arrays
    ) -> tuple[Arrays, Arrays]:
        """Return global sums and counts of a held-out batch, and the new state."""
        counts = target_counts(self.objective.targets(batch))

        def share(
            weights: list[jax.Array],
            others: list[jax.Array],
            tables: list[jax.Array],
            rows: Arrays,
        ) -> tuple[Arrays, Arrays]:
            with keras.StatelessScope(state_mapping=self._bound(weights, others, tables)):
                sums, new = evaluation_sums(self.objective, rows)
            self._sum_names = list(sums)
            return lax.psum(sums, AXIS), new

        run = jax.shard_map(
            share,
            mesh=self.devices.mesh,
            in_specs=(SHARED, SHARED, SHARED, ROWS),
            out_specs=(SHARED, ROWS),
            check_vma=False,
        )
        sums, new = run(values.weights, values.others, tables, {**batch, **state})
        # The objective's order of names, which JAX has sorted on the way.
        self.held_out_names = [*counts, *self._sum_names]
        return {**counts, **sums}, new

    def _gradients(
        self,
        weights: list[jax.Array],
        others: list[jax.Array],
        state: Arrays,
        tables: list[jax.Array],
        batch: Arrays,
        counts: Arrays,
        step: jax.Array,
        scale: Any,
    ) -> tuple[list[jax.Array], list[jax.Array], Arrays, Arrays]:
        """Return gradients, other variables, state and sums of a share, summed over all shares."""
        settings, replicas = self.settings, self.devices.num_replicas_in_sync
        key = jax.random.key(settings.seed)
        for number in (step, lax.axis_index(AXIS)):
            key = jax.random.fold_in(key, number)
        rows, parts = {**batch, **state}, settings.accumulation
        if self.objective.compares and parts * replicas > 1:
            rows = {**rows, **self._compared(self._bound(weights, others, tables), rows, key)}

        def micro(others: list[jax.Array], rows: Arrays, index: Any) -> tuple[Any, ...]:
            """Return gradients, sums, new state and other variables of one micro-batch."""
            seeds = self._drawn(key, index)

            def loss(weights: list[jax.Array]) -> tuple[jax.Array, tuple[Any, ...]]:
                values = self._bound(weights, others, tables)
                with rematerialization(settings.remat):
                    total, sums, new, scope = micro_batch_loss(
                        self.objective, rows, counts, seeds, replicas * parts, scale, values
                    )
                self._sum_names = list(sums)
                return total, (sums, new, [scope.get_current_value(v) for v in self.others])

            gradients, found = jax.grad(loss, has_aux=True)(weights)
            return gradients, *found

        if parts == 1:
            gradients, sums, state, others = micro(others, rows, 0)
        else:
            gradients, sums, state, others = _accumulated(micro, others, rows, parts)
        if replicas == 1:
            return gradients, others, state, sums  # a sum over one device would copy them all
        gradients, sums = lax.psum((gradients, sums), AXIS)
        # Every device has seen other rows: running averages are averaged.
        others = [
            lax.pmean(x, AXIS) if jnp.issubdtype(x.dtype, jnp.floating) else x for x in others
        ]
        return gradients, others, state, sums

    def _drawn(self, key: jax.Array, index: Any) -> list[jax.Array]:
        """Return the seeds of the random layers in one micro-batch."""
        shape = (max(1, self._seeds), 2)
        seeds = jax.random.randint(jax.random.fold_in(key, index), shape, 0, 2**31 - 1)
        return list(seeds[: self._seeds])

    def _compared(
        self, values: list[tuple[Any, jax.Array]], rows: Arrays, key: jax.Array
    ) -> Arrays:
        """Return what the comparison of the global batch adds to this device's rows."""
        parts = self.settings.accumulation

        def part(found: tuple[Any, Arrays]) -> Arrays:
            index, some = found
            with rematerialization(self.settings.remat):
                return compared_part(self.objective, some, self._drawn(key, index), values)

        cut = {k: x.reshape(parts, -1, *x.shape[1:]) for k, x in rows.items()}
        own = lax.map(part, (jnp.arange(parts), cut))
        own = {k: x.reshape(-1, *x.shape[2:]) for k, x in own.items()}
        whole = lax.all_gather(own, AXIS, tiled=True)
        size = next(iter(own.values())).shape[0]
        first = lax.axis_index(AXIS) * size
        found = comparison(self.objective, whole)
        return {k: lax.dynamic_slice_in_dim(x, first, size) for k, x in found.items()}

    def _bound(
        self, weights: list[jax.Array], others: list[jax.Array], tables: list[jax.Array]
    ) -> list[tuple[Any, jax.Array]]:
        variables = [*self.weights, *self.others, *self.objective.tables]
        return list(zip(variables, [*weights, *others, *tables], strict=True))


def _accumulated(
    micro: Callable[..., tuple[Any, ...]], others: list[jax.Array], rows: Arrays, parts: int
) -> tuple[Any, ...]:
    """Return what `micro` returns, summed over the micro-batches that `rows` are cut into."""
    rows = {k: x.reshape(parts, -1, *x.shape[1:]) for k, x in rows.items()}  # [P, B/P, ...]

    def body(carry: tuple[Any, ...], part: tuple[Any, Arrays]) -> tuple[Any, Any]:
        others, before = carry
        gradients, sums, new, others = micro(others, part[1], part[0])
        return (others, jax.tree.map(jnp.add, before, (gradients, sums))), new

    first = {k: x[0] for k, x in rows.items()}
    found = jax.eval_shape(micro, others, first, 0)[:2]
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), found)
    (others, (gradients, sums)), state = lax.scan(body, (others, zeros), (jnp.arange(parts), rows))
    return gradients, sums, {k: x.reshape(-1, *x.shape[2:]) for k, x in state.items()}, others
