"""What JAX's devices can do, for the speeds that are shown."""

from __future__ import annotations

import functools
import time

import jax
from jax import numpy as jnp

from tfnlp.training.engines.jax_devices import ROWS, JaxDevices
from tfnlp.training.monitor import process_memory

_SECONDS = 0.12  # to measure products of one size


class JaxMachine:
    """The devices of this process, see `tfnlp.training.monitor.TensorFlowMachine`.

    Attributes:
        share: of all devices.
    """

    def __init__(self, devices: JaxDevices) -> None:
        here = jax.process_index()
        self._local = [d for d in devices.devices if d.process_index == here]
        self.share = len(self._local) / len(devices.devices)

    def matmul_rate(self, dtype: str, again: bool) -> float | None:
        """Return the operations a second that square products reach on all of them together."""
        if again:
            _rate.cache_clear()
        return _rate(tuple(self._local), dtype)

    def memory(self) -> int | None:
        """Return the most bytes that a device, or on CPUs this process, has used."""
        stats = [device.memory_stats() for device in self._local]
        if not all(stats):
            return process_memory()
        return max(s.get("peak_bytes_in_use", s.get("bytes_in_use", 0)) for s in stats)


@functools.cache
def _rate(local: tuple[jax.Device, ...], dtype: str) -> float:
    devices, on_cpu = JaxDevices(local), local[0].platform == "cpu"
    # An accelerator needs large products, and several of them to hide the call.
    sizes, chain = ((1024, 2048), 1) if on_cpu else ((4096,), 10)

    @jax.jit
    def multiply(x: jax.Array) -> jax.Array:
        y = x
        for _ in range(chain):
            y = jnp.matmul(x, y)  # [D, S, S]
        # A number a device: one of all of them would take an operation between devices.
        return y.astype("float32").max((1, 2))  # [D]

    rates = []
    for size in sizes:
        shape = (len(local), size, size)
        x = jax.random.normal(jax.random.key(0), shape, dtype) * size**-0.5
        x = devices.place(x, ROWS)
        multiply(x).block_until_ready()  # compiles
        times = []
        while sum(times) < _SECONDS:
            start = time.perf_counter()
            multiply(x).block_until_ready()
            times.append(time.perf_counter() - start)
        rates.append(len(local) * chain * 2 * size**3 / min(times))
    return max(rates)
