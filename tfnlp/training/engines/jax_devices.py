"""The devices on which JAX trains, in place of a `tf.distribute` strategy."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tfnlp.accelerators import accelerator, unused
from tfnlp.optional_tensorflow import has_tensorflow, tf

AXIS = "batch"  # the mesh's only axis: rows of a batch are split over it
SHARED = PartitionSpec()  # the same array on every device
ROWS = PartitionSpec(AXIS)  # a share of the rows on each device
ROWS_OF_STEPS = PartitionSpec(None, AXIS)  # of the batches of several steps
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8  # of `mallopt` in glibc's malloc.h
_ACCELERATORS = ("libtpu", "jax_plugins")  # what is installed beside JAX for a TPU or a GPU


class JaxDevices:
    """Devices that each take a share of a batch.

    Args:
        devices: of JAX; None: all, those of other processes included.
        shard_optimizer: keep a part of each weight and of each slot of the optimizer on every
            device instead of all of them. The numbers are the same; a step also gathers the
            weights.
        addresses: of the processes, for messages.
    """

    def __init__(
        self,
        devices: Sequence[jax.Device] | None = None,
        shard_optimizer: bool = False,
        addresses: Sequence[str] = (),
    ) -> None:
        self.devices = list(jax.devices() if devices is None else devices)
        self.shard_optimizer, self.addresses = shard_optimizer, list(addresses)
        self.num_replicas_in_sync = len(self.devices)
        self.mesh = Mesh(np.array(self.devices), (AXIS,))
        # Those of a topology that `tfnlp plan` compiles for belong to no process.
        self.processes = [jax.process_index()]
        if jax.process_count() > 1:
            self.processes = sorted({device.process_index for device in self.devices})
        self._replicated = jax.jit(lambda x: x, out_shardings=self.sharding(SHARED))

    def scope(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which variables are made, as a `tf.distribute` strategy does."""
        return contextlib.nullcontext()

    def sharding(self, spec: PartitionSpec) -> NamedSharding:
        """Return how an array lies on the devices."""
        return NamedSharding(self.mesh, spec)

    def of_weight(self, shape: Sequence[int]) -> PartitionSpec:
        """Return how a weight, or a slot, lies on the devices.

        With `shard_optimizer` its longest axis that the number of devices divides is split.
        """
        count = self.num_replicas_in_sync
        fitting = [i for i, size in enumerate(shape) if size >= count and size % count == 0]
        if not self.shard_optimizer or count == 1 or not fitting:
            return SHARED
        longest = max(fitting, key=lambda i: shape[i])
        return PartitionSpec(*[AXIS if i == longest else None for i in range(len(shape))])

    def place(self, value: Any, spec: PartitionSpec) -> jax.Array:
        """Return an array on the devices; every process passes the same one and places its part."""
        sharding = self.sharding(spec)
        if sharding.is_fully_addressable:
            return jax.device_put(value, sharding)
        value = np.asarray(value)
        return jax.make_array_from_callback(value.shape, sharding, lambda part: value[part])

    def copied(self, value: jax.Array, spec: PartitionSpec) -> jax.Array:
        """Return an array on the devices that shares no memory with `value`, see `place`."""
        sharding = self.sharding(spec)
        if sharding.is_fully_addressable:
            return jax.device_put(value, sharding, may_alias=False)
        return self.place(np.array(value), spec)

    def placed(self, value: jax.Array, spec: PartitionSpec) -> jax.Array:
        """Return an array on the devices; the same one if it lies there already."""
        if getattr(value, "sharding", None) == self.sharding(spec):
            return value
        return self.place(value, spec)

    def finished(self, values: Any) -> Any:
        """Return what a program returns; with several processes when all devices here have it.

        A CPU would start the next program on one device while another is still in this one, and
        the processes then wait for each other, for ever, in operations of different programs.
        """
        return jax.block_until_ready(values) if len(self.processes) > 1 else values

    def whole(self, value: jax.Array) -> jax.Array:
        """Return an array that this process can read; all processes must call it."""
        if value.is_fully_addressable:
            return value
        return self.finished(self._replicated(value)).addressable_data(0)


def keep_tensorflow_on_cpu() -> None:
    """Hide TPUs and GPUs from TensorFlow, which makes the batches, but would take their memory.

    It must be called before TensorFlow computes anything; else a warning says that it is too late.
    """
    for kind in ("TPU", "GPU") if has_tensorflow() else ():
        if not tf.config.get_visible_devices(kind):
            continue
        try:
            tf.config.set_visible_devices([], kind)
        except RuntimeError:
            warnings.warn(
                f"TensorFlow computed something before it was told to leave the {kind} to JAX; "
                "memory there is taken",
                stacklevel=3,
            )


def jax_strategy(name: str, shard_optimizer: bool) -> JaxDevices:
    """Return the devices; see `tfnlp.training.make_strategy` for the names but "multi_worker"."""
    keep_tensorflow_on_cpu()
    if name in ("auto", "mirrored"):
        check_used()
    if name == "auto":
        return JaxDevices(shard_optimizer=shard_optimizer)
    kind = name if name != "mirrored" else jax.default_backend()
    try:
        devices = jax.local_devices(backend=kind)
    except RuntimeError as error:
        raise ValueError(f"strategy={name!r}, but JAX has no {name.upper()} here") from error
    if name in ("cpu", "gpu"):
        devices = devices[:1]
    return JaxDevices(devices, shard_optimizer)


def check_used() -> None:
    """Check that JAX sees the TPU or GPU of this machine, if it has one."""
    found = accelerator()
    if found is not None and jax.default_backend() == "cpu":
        raise ValueError(unused(found))


def keep_freed_memory() -> bool:
    """Have glibc keep what is freed, if JAX has only the CPU; return whether it does.

    XLA allocates the intermediate results of a step when it starts and frees them when it ends.
    glibc gives blocks of that size back to the system at once, and the system fills each page of
    the next step's with zeros: a quarter of the processor time of a step of a small BERT.

    To be called before JAX starts its threads, which is when it makes its first array. All threads
    then allocate from the one heap that can grow. `TFNLP_KEEP_MEMORY=0` prevents it.
    """
    platforms = os.environ.get("JAX_PLATFORMS")
    only_cpu = platforms == "cpu" or not (
        platforms or any(importlib.util.find_spec(name) for name in _ACCELERATORS)
    )
    off = os.environ.get("TFNLP_KEEP_MEMORY") == "0"
    if off or not only_cpu or not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    except (AttributeError, OSError):  # another C library
        return False
    # One heap; no block outside of it; its end is never given back.
    settings = ((_ARENA_MAX, 1), (_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1))
    return all([mallopt(*setting) for setting in settings])


keep_freed_memory()  # here, because models are built before there is an engine
