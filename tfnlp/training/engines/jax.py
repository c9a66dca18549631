"""Training steps in JAX: one compiled program over all devices."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.sharding import PartitionSpec

from tfnlp.training.batches import Batches
from tfnlp.training.engines.jax_devices import ROWS, ROWS_OF_STEPS, SHARED, JaxDevices
from tfnlp.training.engines.jax_step import JaxStep, Values
from tfnlp.training.engines.jax_workers import JaxWorkers, Parted
from tfnlp.training.engines.step import Engine, StepSettings, Totals


class JaxEngine(Engine):
    """Runs a step as one program over all devices.

    The Keras variables hold the values between calls; a call gives their memory to the program and
    assigns its results.
    """

    def __init__(self, settings: StepSettings, devices: JaxDevices) -> None:
        if not isinstance(devices, JaxDevices):
            raise ValueError(
                f"strategy must be a JaxDevices under JAX, not {type(devices).__name__}"
            )
        super().__init__(settings, JaxWorkers(devices), devices.num_replicas_in_sync, Counter())
        self.body, self._devices = JaxStep(settings, devices), devices
        self._variables = Values(
            self.body.weights,
            self.body.others,
            settings.optimizer.slots,
            settings.objective.state,
            self._scaling,
        )
        of_weight = functools.partial(jax.tree.map, lambda v: devices.of_weight(v.shape))
        specs = Values(
            of_weight(self._variables.weights),
            [SHARED for _ in self._variables.others],
            of_weight(self._variables.slots),
            {name: ROWS for name in self._variables.state},
            {name: SHARED for name in self._variables.scaling},
        )
        self._specs = specs
        self._slots = {  # as a checkpoint sees them
            name: Int64(v) if v.dtype == "int32" else v for name, v in self._slots.items()
        }
        if self.workers.count > 1:
            parted = [name for name, spec in specs.slots.items() if spec != SHARED]
            self._slots.update({k: Parted(self._slots[k], devices) for k in parted})
            for variable in [*self.body.weights, *self.body.others]:
                # Every process has drawn its own.
                variable.assign(self.workers.from_chief(np.asarray(variable.value)))
        shardings = jax.tree.map(
            devices.sharding, specs, is_leaf=lambda x: isinstance(x, PartitionSpec)
        )
        self._assigned: dict[int, jax.Array] = {}  # by the last step, by the variable's id
        results = (shardings, devices.sharding(SHARED))
        self._train = jax.jit(self.body.train, donate_argnums=0, out_shardings=results)
        self._train_several = jax.jit(self._scan, donate_argnums=0, out_shardings=results)
        self._evaluate = jax.jit(self.body.evaluate)

    @functools.cached_property
    def _tables(self) -> list[jax.Array]:
        """The objective's tables on the devices; placed when a step first needs them."""
        return [self._devices.place(np.asarray(v.value), SHARED) for v in self._objective.tables]

    def lower(self, batch: Mapping[str, jax.ShapeDtypeStruct]) -> jax.stages.Lowered:
        """Return the program of one step before it is compiled, for a global batch of these shapes.

        Only shapes are read: neither the devices nor the values of variables need to be there.
        """

        def shape(x: Any, spec: PartitionSpec) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._devices.sharding(spec))

        values = jax.tree.map(shape, self._variables, self._specs)
        tables = [shape(v, SHARED) for v in self._objective.tables]
        rows = {k: shape(x, ROWS) for k, x in batch.items()}
        return self._train.lower(values, tables, rows, jax.ShapeDtypeStruct((), "int32"))

    def collect(self) -> None:
        if self.workers.count == 1:
            return
        values = self._variables
        kept = [*values.weights, *values.others, *values.state.values(), *values.scaling.values()]
        for variable in kept:
            variable.assign(self._devices.whole(variable.value))
        for slot in self._slots.values():
            if isinstance(slot, Parted):
                slot.collect(keep=self.workers.chief)

    def batches(self, data: Batches, first_step: int) -> Iterator[dict[str, np.ndarray]]:
        return data.arrays(first_step)

    def train(self, iterator: Iterator[Any], count: int) -> Totals:
        # As many as `steps_per_call` run as one program, if their batches have the same shapes;
        # others one by one. Where the data ends the updates with its last batches are made.
        self._own_arrays()
        values, sums, waited = self._values(), None, 0.0
        size = count if count == self.settings.steps_per_call else 1
        for _ in range(count // size):
            started = time.perf_counter()
            batches = list(itertools.islice(iterator, size))
            waited += time.perf_counter() - started
            shapes = {tuple(x.shape for x in batch.values()) for batch in batches}
            together = len(batches) == self.settings.steps_per_call and len(shapes) == 1
            for group in [batches] if together else [[batch] for batch in batches]:
                values, totals = self._devices.finished(self._call(values, group))
                # At once: the values before were given away.
                self._assign(values)
                self._count.value += len(group)
                sums = totals if sums is None else jax.tree.map(jnp.add, sums, totals)
            if len(batches) < size:
                raise StopIteration
        # JAX sorts the names of a dict.
        return {**{name: sums[name] for name in self.body.names}, "work/waited": waited}

    def _call(
        self, values: Values, batches: Sequence[Mapping[str, np.ndarray]]
    ) -> tuple[Values, Totals]:
        """Make one step, or `steps_per_call` of them in one program."""
        run, spec, batch = self._train, ROWS, batches[0]
        if len(batches) > 1:
            run, spec = self._train_several, ROWS_OF_STEPS
            batch = {k: np.stack([b[k] for b in batches]) for k in batch}  # [N, B, ...]
        batch = {k: self._devices.place(x, spec) for k, x in batch.items()}
        return run(values, self._tables, batch, np.asarray(self._count.value, "int32"))

    def evaluate(self, batch: Mapping[str, Any], state: Any) -> tuple[Totals, Any]:
        batch = {k: np.asarray(x) for k, x in batch.items()}
        if state is None:
            size = len(next(iter(batch.values())))
            state = {
                k: self._devices.place(np.zeros((size, *v.shape[1:]), "float32"), ROWS)
                for k, v in self._objective.state.items()
            }
        batch = {k: self._devices.place(x, ROWS) for k, x in batch.items()}
        sums, state = self._devices.finished(
            self._evaluate(self._values(), self._tables, batch, state)
        )
        return {name: sums[name] for name in self.body.held_out_names}, state

    def _scan(
        self, values: Values, tables: list[jax.Array], batches: Any, step: jax.Array
    ) -> tuple[Values, Any]:
        """Make a step with each of `batches` `[N, B, ...]`; return the values and summed totals."""

        def body(carry: tuple[Values, jax.Array], batch: Any) -> tuple[Any, Any]:
            values, step = carry
            values, totals = self.body.train(values, tables, batch, step)
            return (values, step + 1), totals

        (values, _), totals = jax.lax.scan(body, (values, step), batches)
        return values, jax.tree.map(lambda x: x.sum(0), totals)

    def _values(self) -> Values:
        """Return the values of all variables, on the devices."""
        # A variable that was made or assigned elsewhere (by a checkpoint, say) is moved.
        return jax.tree.map(
            lambda v, spec: self._devices.placed(v.value, spec), self._variables, self._specs
        )

    def _own_arrays(self) -> None:
        """Give each variable an array of its own where it has not the one of the last step.

        A step gives arrays away, and a variable that was assigned to another one shares its array.
        """

        def own(variable: Any, spec: PartitionSpec) -> None:
            value = variable.value
            if self._assigned.get(id(variable)) is not value and value.is_fully_addressable:
                variable.assign(self._devices.copied(value, spec))

        jax.tree.map(own, self._variables, self._specs)

    def _assign(self, values: Values) -> None:
        jax.tree.map(lambda v, x: v.assign(x), self._variables, values)
        self._assigned = {id(v): v.value for v in jax.tree.leaves(self._variables)}


class Int64:
    """An int32 variable that a checkpoint keeps as int64, as a Keras optimizer's count of updates.

    TensorFlow's Keras counts in int64, and a checkpoint is read by both.
    """

    dtype = "int64"

    def __init__(self, variable: Any) -> None:
        self._variable, self.shape = variable, variable.shape

    def numpy(self) -> np.ndarray:
        """Return the value, int64."""
        return np.asarray(self._variable.numpy(), self.dtype)

    def assign(self, value: Any) -> None:
        """Set the value."""
        self._variable.assign(np.asarray(value, "int32"))


class Counter:
    """The number of updates, with the interface of a variable."""

    dtype, shape = "int64", ()

    def __init__(self) -> None:
        self.value = 0

    def numpy(self) -> np.ndarray:
        """Return the number, int64."""
        return np.asarray(self.value, self.dtype)

    def assign(self, value: Any) -> None:
        """Set the number."""
        self.value = int(value)
