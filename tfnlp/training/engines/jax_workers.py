"""The processes that train together with JAX: how they find each other, and what they exchange."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import keras
import numpy as np
from jax import lax
from jax._src import xla_bridge

from tfnlp import __version__
from tfnlp.training.engines.jax_devices import (
    AXIS,
    ROWS,
    SHARED,
    JaxDevices,
    check_used,
    keep_tensorflow_on_cpu,
)
from tfnlp.training.rendezvous import rendezvous
from tfnlp.training.workers import WorkerLost, Workers, read_cluster

# How JAX reports that another process is gone; Gloo's errors come as a ValueError or as JAX's own.
_LOST = re.compile(r"Gloo [\w-]+ failed|^(UNAVAILABLE|ABORTED|CANCELLED|DEADLINE_EXCEEDED)\b")
_SHORTEST = 10.0  # seconds that JAX gets to connect processes which have all just answered
_SILENT = 60  # seconds after which JAX takes a process that says nothing for dead


class JaxWorkers(Workers):
    """The interface of `tfnlp.training.workers.Workers`, for devices of all processes."""

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


def join(
    workers: Sequence[str] | None,
    index: int | None,
    wait: float,
    shard_optimizer: bool,
) -> JaxDevices:
    """Connect this process with the others, for which it waits; return the devices of all of them.

    JAX ends a process that waits in vain for another one, without an exception and without a name.
    So they meet at a `rendezvous` first. JAX's service then takes over the first worker's port.
    `workers` and `index` are those of `read_cluster`.
    """
    addresses, index = read_cluster(workers, index)
    # JAX itself says so only after the rendezvous, when the others would wait for this process.
    if jax.distributed.is_initialized() or xla_bridge.backends_are_initialized():
        raise ValueError(
            "the strategy 'multi_worker' must be made before anything else runs in JAX"
        )
    deadline = time.monotonic() + wait
    rendezvous(addresses, index, wait, __version__)
    keep_tensorflow_on_cpu()
    if len(addresses) > 1:
        _connect(addresses, index, max(_SHORTEST, deadline - time.monotonic()))
    check_used()
    devices = JaxDevices(shard_optimizer=shard_optimizer, addresses=addresses)
    if len(addresses) > 1 and jax.default_backend() == "cpu":
        # From its first collective operation on Gloo has its own connections, which break at once
        # if a process dies: an exception. JAX's service would abort the process instead, and hold
        # up for minutes the end of one whose partner was killed.
        with _printed_to_stderr():
            JaxWorkers(devices).gather(index)
        jax.distributed.shutdown()
        _close_on_exec()
    return devices


def _connect(addresses: Sequence[str], index: int, seconds: float) -> None:
    # JAX would answer SIGTERM itself, by a note that nothing here reads.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            addresses[0],
            len(addresses),
            index,
            cluster_detection_method="deactivate",
            initialization_timeout=math.ceil(seconds),
            heartbeat_timeout_seconds=_SILENT,
        )
    except jax.errors.JaxRuntimeError as error:
        raise ConnectionError(
            f"JAX can't connect worker {index} ({addresses[index]}) with the others: "
            f"{str(error).splitlines()[0]}; start all workers again, or use another port for the "
            "first one"
        ) from error


@contextlib.contextmanager
def _printed_to_stderr() -> Iterator[None]:
    """Send to stderr what a library prints: Gloo says that it is connected."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def _close_on_exec() -> None:
    """Let the connections to the others end with this program.

    Gloo's would stay open in the one that the command becomes to start again after a worker was
    lost, and the other workers would wait for it.
    """
    for name in os.listdir("/dev/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # that of the list itself
                os.set_inheritable(int(name), False)
