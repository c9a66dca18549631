"""The `tf.distribute` strategy for the devices to train on."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Sequence

import keras

from tfnlp import __version__
from tfnlp.accelerators import accelerator, has_tpu, unused
from tfnlp.files import first_line
from tfnlp.optional_tensorflow import tf
from tfnlp.training.rendezvous import host_and_port, in_thread, rendezvous
from tfnlp.training.workers import Workers, read_cluster

_IN_JAX = keras.backend.backend() == "jax"
if _IN_JAX:
    from tfnlp.training.engines.jax_devices import (
        JaxDevices,
        jax_strategy,
        keep_tensorflow_on_cpu,
    )
    from tfnlp.training.engines.jax_workers import JaxWorkers, join

STRATEGIES = ("auto", "cpu", "gpu", "mirrored", "multi_worker", "tpu")
# The `MirroredStrategy` of several devices that this process has trained with. A second one would
# number its collective operations from the start again: TensorFlow takes them for those of the
# first, and stops for good where their shapes differ.
_used: list[tf.distribute.MirroredStrategy] = []
_made: list[tf.distribute.MirroredStrategy] = []  # by `mirrored`


def make_strategy(
    name: str = "auto",
    *,
    tpu: str | None = None,
    workers: Sequence[str] | None = None,
    index: int | None = None,
    wait: float = 300.0,
    shard_optimizer: bool = False,
) -> tf.distribute.Strategy | JaxDevices:
    """Return the `tf.distribute` strategy called `name`, or with Keras on JAX the `JaxDevices`.

    Args:
        name: "auto" (a TPU if there is one, else all GPUs if there are several, else the default
            device), "cpu", "gpu" (the first one), "mirrored" (all GPUs, or all logical CPUs; the
            same strategy each time),
            "multi_worker" (this process and those of other machines; call it before anything else
            runs in TensorFlow or JAX) or "tpu".
        tpu: with "tpu": which one, see `tpu_strategy`.
        workers, index: with "multi_worker": see `read_cluster`.
        wait: seconds to wait for other workers, or for the TPU.
        shard_optimizer: with JAX: keep a part of each weight and of the optimizer's slots on every
            device instead of all of them.

    Raises:
        ValueError: for another name, for arguments that the strategy does not have, and if the
            engine sees no such device. If the name is not "cpu" and this machine has a TPU or GPU
            that the engine can't use.
        TimeoutError: if a worker or the TPU does not answer in time; names it.
        ConnectionError: if the workers belong to different clusters.
    """
    if tpu is not None and name not in ("tpu", "auto"):
        raise ValueError(f"`tpu` {tpu} needs `strategy` tpu, not {name}")
    if name != "multi_worker" and (workers is not None or index is not None):
        raise ValueError(f"`workers` and `index` need `strategy` multi_worker, not {name}")
    if not wait > 0:
        raise ValueError(f"`wait` {wait} must be a number of seconds above 0")
    if name not in STRATEGIES:
        raise ValueError(f"strategy={name!r} is unknown; choose one of {', '.join(STRATEGIES)}")
    if _IN_JAX:
        if tpu is not None:
            raise ValueError(f"`tpu` {tpu} needs TensorFlow; JAX trains on the TPU of its machine")
        if name == "multi_worker":
            return join(workers, index, wait, shard_optimizer)
        return jax_strategy(name, shard_optimizer)
    if shard_optimizer:
        raise ValueError("`shard_optimizer` needs the engine jax")
    if name in ("auto", "mirrored", "multi_worker") and not tpu:
        kind = accelerator()
        if kind is not None and not tf.config.list_physical_devices(kind.upper()):
            raise ValueError(unused(kind))  # TensorFlow does not see the device of this machine
    if name == "multi_worker":
        return _multi_worker(workers, index, wait)
    if name == "tpu" or (name == "auto" and (tpu or tpu_here())):
        return tpu_strategy(tpu, wait)
    gpus = tf.config.list_logical_devices("GPU")
    if name == "auto":
        return (
            mirrored([gpu.name for gpu in gpus]) if len(gpus) > 1 else tf.distribute.get_strategy()
        )
    if name == "cpu":
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    if name == "gpu":
        if not gpus:
            raise ValueError("strategy='gpu', but TensorFlow sees no GPU; use 'cpu' or 'auto'")
        return tf.distribute.OneDeviceStrategy("/gpu:0")
    devices = gpus or tf.config.list_logical_devices("CPU")
    return mirrored([device.name for device in devices])


def _multi_worker(
    workers: Sequence[str] | None, index: int | None, wait: float
) -> tf.distribute.Strategy:
    addresses, index = read_cluster(workers, index)
    rendezvous(addresses, index, wait, __version__)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": addresses}),
        task_type="worker",
        task_id=index,
        rpc_layer="grpc",
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    except RuntimeError as error:
        raise ValueError(
            "the strategy 'multi_worker' must be made before anything else runs in TensorFlow"
        ) from error


def mirrored(devices: Sequence[str]) -> tf.distribute.MirroredStrategy:
    """Return the process's `MirroredStrategy` for devices such as "/device:GPU:0"."""
    for strategy in [*_used, *_made]:
        there = strategy.extended.worker_devices
        if len(there) == len(devices) and all(map(str.endswith, there, devices)):
            return strategy
    _made.append(tf.distribute.MirroredStrategy(list(devices)))
    return _made[-1]


def use_mirrored(strategy: tf.distribute.Strategy) -> None:
    """Remember which `MirroredStrategy` this process trains with."""
    mirrors = not _IN_JAX and isinstance(strategy, tf.distribute.MirroredStrategy)
    if not mirrors or strategy.num_replicas_in_sync == 1:
        return
    if not _used:
        _used.append(strategy)
    if strategy is not _used[0]:
        raise ValueError(
            "this process has already trained with another MirroredStrategy, and TensorFlow mixes "
            "up the collective operations of two; use one strategy for the whole process: "
            "training.make_strategy('mirrored') returns the same one each time; to train with "
            "another one, start another process"
        )


def default_strategy() -> tf.distribute.Strategy | JaxDevices:
    """Return TensorFlow's current strategy, or all devices of JAX."""
    if _IN_JAX:
        keep_tensorflow_on_cpu()
        return JaxDevices()
    return tf.distribute.get_strategy()


def is_compiled(strategy: tf.distribute.Strategy | JaxDevices, jit: bool = False) -> bool:
    """Return whether a step is compiled for each shape of its batches: by XLA, as JAX and TPUs do.

    `jit` is the `jit_compile` of the `Trainer`.
    """
    return _IN_JAX or jit or isinstance(strategy, tf.distribute.TPUStrategy)


def device_kind(strategy: tf.distribute.Strategy | JaxDevices) -> str:
    """Return what a strategy trains on: "tpu", "gpu" or "cpu"."""
    if _IN_JAX:
        return strategy.devices[0].platform
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return "tpu"
    try:
        names = strategy.extended.worker_devices
    except RuntimeError:  # the default one, with which TensorFlow takes a GPU if there is one
        names = [device.name for device in tf.config.list_logical_devices("GPU")]
    return "gpu" if any("GPU" in name for name in names) else "cpu"


def workers_of(strategy: tf.distribute.Strategy | JaxDevices) -> Workers:
    """Return the processes that train together with a strategy."""
    return JaxWorkers(strategy) if _IN_JAX else Workers(strategy)


def tpu_here() -> str | None:
    """Return the name of the TPU that this machine has or names, as on Colab, or None."""
    if os.environ.get("COLAB_TPU_ADDR"):
        return f"grpc://{os.environ['COLAB_TPU_ADDR']}"
    if os.environ.get("TPU_NAME"):
        return os.environ["TPU_NAME"]
    return "local" if has_tpu() and tf.config.list_physical_devices("TPU") else None


@functools.cache
def tpu_strategy(name: str | None, seconds: float) -> tf.distribute.TPUStrategy:
    """Return the `TPUStrategy` of the process: initialising a TPU again deletes all that is on it.

    `name` is "local" (chips of this machine), the name of a Cloud TPU, or grpc://host:port; None:
    the one that `tpu_here` finds. It waits so many seconds.
    """
    name = name or tpu_here()
    if not name:
        raise ValueError(
            "strategy='tpu', but this machine has no TPU; name one with --tpu, or choose another "
            "--strategy"
        )
    _check_address(name, seconds)
    try:
        resolver = in_thread(lambda: _connect(name), seconds)
    except TimeoutError:
        raise TimeoutError(f"the TPU {name!r} did not answer within {seconds:g} seconds") from None
    except Exception as error:
        reason, hint = first_line(error), ""
        if "No OpKernel" in reason:
            reason = "this TensorFlow was built without TPUs"
            hint = "; pip install tensorflow-tpu==2.20.0 libtpu==0.0.21"
        raise ValueError(f"there is no TPU {name!r}: {reason[:300]}{hint}") from error
    return tf.distribute.TPUStrategy(resolver)


def _check_address(name: str, seconds: float) -> None:
    """Check that a TPU answers at its address: TensorFlow itself would wait for ever."""
    if not name.startswith("grpc://"):
        return
    address = name.removeprefix("grpc://")
    try:
        socket.create_connection(host_and_port(address), timeout=min(seconds, 30)).close()
    except OSError as error:
        raise ValueError(
            f"no TPU answers at {address} ({error.strerror or error}); check that it is running "
            "and that the address is right"
        ) from error


def _connect(name: str) -> tf.distribute.cluster_resolver.TPUClusterResolver:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return resolver
