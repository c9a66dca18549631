"""The processes that train together with JAX, and what they exchange."""

from __future__ import annotations

import re
from typing import Any

import jax
import keras
import numpy as np
from jax import lax

from tfnlp.training.cluster.workers import WorkerLost, Workers
from tfnlp.training.engines.jax_devices import AXIS, ROWS, SHARED, JaxDevices

# How JAX reports that another process is gone; Gloo's errors come as a ValueError or as JAX's own.
_LOST = re.compile(r"Gloo [\w-]+ failed|^(UNAVAILABLE|ABORTED|CANCELLED|DEADLINE_EXCEEDED)\b")


class JaxWorkers(Workers):
    """The interface of `tfnlp.training.cluster.workers.Workers`, for devices of all processes."""

    def __init__(self, devices: JaxDevices) -> None:
        here = jax.process_index()
        self.count, self.index = len(devices.processes), devices.processes.index(here)
        self._devices = devices
        self._sum = jax.jit(
            jax.shard_map(
                lambda x: lax.psum(x[0], AXIS),
                mesh=devices.mesh,
                in_specs=ROWS,
                out_specs=SHARED,
                check_vma=False,
            )
        )

    def gather(self, *numbers: int) -> np.ndarray:
        """Return the integers that every worker passes: int64 `[count, len(numbers)]`.

        All workers must call it, and none returns before all have.
        """
        rows = np.zeros((self.count, len(numbers)), "int64")
        rows[self.index] = numbers
        return self._total(rows)

    def from_chief(self, value: np.ndarray) -> np.ndarray:
        """Return the chief's array, of the same shape and type at all workers."""
        return self._total(value if self.chief else np.zeros_like(value))

    def lost(self, error: Exception) -> WorkerLost | None:
        """Return a `WorkerLost` if an error says that another worker is gone; else None."""
        kinds = (ValueError, jax.errors.JaxRuntimeError)
        if self.count == 1 or not isinstance(error, kinds) or not _LOST.search(str(error)):
            return None
        other = "another worker"
        if len(self._devices.addresses) == 2:
            other = f"worker {1 - self.index} ({self._devices.addresses[1 - self.index]})"
        return WorkerLost(f"{other} does not answer any more")

    def _total(self, value: np.ndarray) -> np.ndarray:
        """Return the sum of arrays of which at most one has a number other than 0 at a place."""
        if self.count == 1:
            return value
        # As bytes: JAX has no int64, and Gloo not every type.
        here = jax.process_index()
        first = [device.process_index for device in self._devices.devices].index(here)
        own = np.frombuffer(value.tobytes(), "uint8")[None]
        shape = (self._devices.num_replicas_in_sync, own.size)
        others = np.zeros_like(own)
        parts = jax.make_array_from_callback(
            shape,
            self._devices.sharding(ROWS),
            lambda place: own if (place[0].start or 0) == first else others,
        )
        return (
            np.asarray(self._devices.finished(self._sum(parts)))
            .view(value.dtype)
            .reshape(value.shape)
        )


class Parted:
    """A Keras variable whose parts lie on the devices of several processes, for a checkpoint."""

    def __init__(self, variable: keras.Variable, devices: JaxDevices) -> None:
        self._variable, self._devices = variable, devices
        self.shape, self.dtype = variable.shape, variable.dtype
        self._whole: np.ndarray | None = None

    def collect(self, keep: bool) -> None:
        """Take part in putting the parts together; keep them for `numpy`, or not."""
        whole = self._devices.whole(self._variable.value)
        self._whole = np.asarray(whole) if keep else None

    def numpy(self) -> np.ndarray:
        """Return what was collected, once."""
        whole, self._whole = self._whole, None
        return whole

    def assign(self, value: Any) -> None:
        """Set the variable."""
        self._variable.assign(value)
