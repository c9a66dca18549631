"""The `tf.distribute` strategy for the devices to train on."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import keras
import tensorflow as tf

from tfnlp import __version__
from tfnlp.accelerators import accelerator, unused
from tfnlp.training.cluster.mirrored import mirrored
from tfnlp.training.cluster.rendezvous import rendezvous
from tfnlp.training.cluster.tpu import tpu_here, tpu_strategy
from tfnlp.training.cluster.workers import read_cluster

if TYPE_CHECKING:
    from tfnlp.training.engines.jax_devices import JaxDevices

STRATEGIES = ("auto", "cpu", "gpu", "mirrored", "multi_worker", "tpu")


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
        raise ValueError(f"--tpu {tpu} needs the strategy 'tpu', not {name!r}")
    if name != "multi_worker" and (workers is not None or index is not None):
        raise ValueError(f"--workers and --index need the strategy 'multi_worker', not {name!r}")
    if not wait > 0:
        raise ValueError(f"--wait {wait} must be a number of seconds above 0")
    if name not in STRATEGIES:
        raise ValueError(f"strategy={name!r} is unknown; choose one of {', '.join(STRATEGIES)}")
    if keras.backend.backend() == "jax":
        from tfnlp.training.engines.jax_strategy import jax_strategy

        if tpu is not None:
            raise ValueError(f"`tpu` {tpu} needs TensorFlow; JAX trains on the TPU of its machine")
        if name == "multi_worker":
            from tfnlp.training.engines.jax_cluster import join

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
        return _tpu(tpu, wait)
    gpus = tf.config.list_logical_devices("GPU")
    if name == "auto":
        return _mirrored(gpus) if len(gpus) > 1 else tf.distribute.get_strategy()
    if name == "cpu":
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    if name == "gpu":
        if not gpus:
            raise ValueError("strategy='gpu', but TensorFlow sees no GPU; use 'cpu' or 'auto'")
        return tf.distribute.OneDeviceStrategy("/gpu:0")
    return _mirrored(gpus or tf.config.list_logical_devices("CPU"))


def _mirrored(devices: Sequence[tf.config.LogicalDevice]) -> tf.distribute.Strategy:
    return mirrored([device.name for device in devices])


@functools.cache
def _tpu(name: str | None, wait: float) -> tf.distribute.Strategy:
    """Return one strategy for the process: initialising a TPU again deletes everything on it."""
    return tpu_strategy(name, wait)


def _multi_worker(
    workers: Sequence[str] | None,
    index: int | None,
    wait: float,
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
