"""The two engines of a `Trainer`: what runs its steps under each backend of Keras."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import keras

from tfnlp.optional_tensorflow import tf
from tfnlp.training.batches import Batches
from tfnlp.training.engines.step import StepSettings, Totals
from tfnlp.training.workers import Workers

if keras.backend.backend() == "jax":
    from tfnlp.training.engines.jax import JaxEngine
    from tfnlp.training.engines.jax_devices import JaxDevices, keep_tensorflow_on_cpu
    from tfnlp.training.engines.jax_workers import JaxWorkers
else:
    from tfnlp.training.engines.tensorflow import TensorFlowEngine


class Engine(Protocol):
    """What a `Trainer` asks of an engine.

    Attributes:
        workers: the processes that train together.
        replicas: shares that a global batch is split into.
        step: updates made so far.
    """

    workers: Workers
    replicas: int

    @property
    def step(self) -> int: ...

    def variables(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, by name."""

    def collect(self) -> None:
        """Let every worker read all variables as it reads its own; all workers must call it.

        A call of `train` may take it back.
        """

    def batches(self, data: Batches, first_step: int) -> Iterator[Any]:
        """Return the global batches of the steps from `first_step` on, for `train`."""

    def train(self, iterator: Iterator[Any], count: Any) -> Totals:
        """Make `count` updates; return the sums over them. StopIteration says that data ended."""

    def evaluate(self, batch: Mapping[str, Any], state: Any) -> tuple[Totals, Any]:
        """Return the sums of a global held-out batch, and the state for the next one.

        `state` is that after the batch before, None for the first one.
        """


def default_strategy() -> Any:
    """Return TensorFlow's current strategy, or all devices of JAX."""
    if keras.backend.backend() == "jax":
        keep_tensorflow_on_cpu()
        return JaxDevices()
    return tf.distribute.get_strategy()


def is_compiled(strategy: Any, jit: bool = False) -> bool:
    """Return whether a step is compiled for each shape of its batches: by XLA, as JAX and TPUs do.

    Args:
        strategy: a `tf.distribute.Strategy` or `JaxDevices`.
        jit: the `jit_compile` of the `Trainer`.
    """
    if keras.backend.backend() == "jax":
        return True
    return jit or isinstance(strategy, tf.distribute.TPUStrategy)


def device_kind(strategy: Any) -> str:
    """Return what a `tf.distribute.Strategy` or `JaxDevices` trains on: "tpu", "gpu" or "cpu"."""
    if keras.backend.backend() == "jax":
        return strategy.devices[0].platform
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return "tpu"
    try:
        names = strategy.extended.worker_devices
    except RuntimeError:  # the default one, with which TensorFlow takes a GPU if there is one
        names = [device.name for device in tf.config.list_logical_devices("GPU")]
    return "gpu" if any("GPU" in name for name in names) else "cpu"


def workers_of(strategy: Any) -> Workers:
    """Return the processes that train together with a strategy."""
    if keras.backend.backend() == "jax":
        return JaxWorkers(strategy)
    return Workers(strategy)


def make_engine(settings: StepSettings, strategy: Any) -> Engine:
    """Return the engine of Keras's backend."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return TensorFlowEngine(settings, strategy)
    if backend == "jax":
        return JaxEngine(settings, strategy)
    raise ValueError(f"the backend of Keras is {backend}; training needs tensorflow or jax")
