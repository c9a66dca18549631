"""The rate at which this machine's devices multiply matrices, to compare a step's speed with."""

from __future__ import annotations

import time
from collections.abc import Sequence

import keras
import tensorflow as tf

_SECONDS = 0.12  # to measure products of one size
_LOW_PRECISION = ("bfloat16", "float16")
_measured: dict[tuple[str, ...], float | None] = {}


def matmul_rate(
    strategy: tf.distribute.Strategy, devices: Sequence[str], dtype: str, again: bool = False
) -> float | None:
    """Return the operations a second that all of this worker's replicas reach together.

    They multiply square matrices, on every replica at the same time, so that replicas which share
    a processor are not counted twice; the best of several short runs counts. The result is kept for
    the process; with `again` it is measured again, because other work may have slowed it down.

    Args:
        strategy: the `tf.distribute.Strategy` that trains.
        devices: names of the devices of this worker's replicas.
        dtype: of the matrices.
        again: measure again and return the best.

    Returns:
        A float, or None if the memory is too small or the device doesn't multiply that type.
    """
    key = (*devices, dtype)
    if key not in _measured or (again and _measured[key] is not None):
        try:
            rate = _measure(strategy, devices, dtype)
            _measured[key] = max(rate, _measured.get(key, 0.0))
        except tf.errors.OpError:
            _measured.setdefault(key)
    return _measured[key]


def matmul_dtype(model: keras.Model) -> str:
    """Return the type of most matrix products of a model: a low precision if a layer has one."""
    dtypes, layers = set(), [model]
    while layers:
        layer = layers.pop()
        layers.extend(getattr(layer, "layers", ()))
        dtypes.add(layer.compute_dtype)
    return next((dtype for dtype in _LOW_PRECISION if dtype in dtypes), "float32")


def _measure(strategy: tf.distribute.Strategy, devices: Sequence[str], dtype: str) -> float:
    # An accelerator needs large products to be busy, and several of them to hide the call. On a
    # CPU short ones are less often disturbed by other processes.
    cpu = all("CPU" in device for device in devices)
    sizes, chain = ((1024, 2048), 1) if cpu else ((4096,), 10)

    def square(size: int) -> tf.Tensor:
        x = tf.random.stateless_normal((size, size), (0, 1)) * size**-0.5  # so powers stay finite
        return tf.cast(x, dtype)

    def multiply(x: tf.Tensor) -> tf.Tensor:
        y = x
        for _ in range(chain):
            y = tf.matmul(x, y)
        return tf.reduce_max(tf.cast(y, "float32"))

    @tf.function(autograph=False)
    def run(x: tf.Tensor) -> tf.Tensor:
        return strategy.run(multiply, args=(x,))

    def seconds(x: tf.Tensor) -> float:
        start = time.perf_counter()
        for result in strategy.experimental_local_results(run(x)):
            result.numpy()  # waits for the device
        return time.perf_counter() - start

    rates = []
    for size in sizes:
        x = tf.function(lambda size=size: strategy.run(square, args=(size,)), autograph=False)()
        seconds(x)  # traces
        times = [seconds(x)]
        while sum(times) < _SECONDS:
            times.append(seconds(x))
        rates.append(len(devices) * chain * 2 * size**3 / min(times))
    return max(rates)
