"""Which devices to train on."""

import functools

import tensorflow as tf

from tfnlp import __version__
from tfnlp.training.cluster.peers import meet
from tfnlp.training.cluster.tpu import tpu_here, tpu_strategy
from tfnlp.training.cluster.workers import read_cluster

STRATEGIES = ("auto", "cpu", "gpu", "mirrored", "multi_worker", "tpu")


def make_strategy(name="auto", *, tpu=None, workers=None, index=None, wait=300.0):
    """The `tf.distribute` strategy called `name`.

    Args:
        name: "auto" (a TPU if there is one, else every GPU if there are several, else the one
            device there is), "cpu", "gpu" (the first one), "mirrored" (every GPU, or every logical
            CPU), "multi_worker" (this process and those of other machines; call it before anything
            else of TensorFlow) or "tpu".
        tpu: with "tpu": which, see `tpu_strategy`.
        workers, index: with "multi_worker": see `read_cluster`.
        wait: seconds to wait for other workers, or for the TPU.

    Raises:
        ValueError: for another name, for arguments that the strategy does not have, and where
            TensorFlow sees no such device.
        TimeoutError: if a worker or the TPU does not come; says which.
        ConnectionError: if workers do not fit together.
    """
    if tpu is not None and name not in ("tpu", "auto"):
        raise ValueError(f"--tpu {tpu} needs the strategy 'tpu', not {name!r}")
    if name != "multi_worker" and (workers is not None or index is not None):
        raise ValueError(f"--workers and --index need the strategy 'multi_worker', not {name!r}")
    if not wait > 0:
        raise ValueError(f"--wait {wait} must be a number of seconds above 0")
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
    if name == "mirrored":
        return _mirrored(gpus or tf.config.list_logical_devices("CPU"))
    raise ValueError(f"strategy={name!r} is unknown; choose one of {', '.join(STRATEGIES)}")


def _mirrored(devices):
    return _one_mirrored(tuple(device.name for device in devices))


@functools.cache
def _one_mirrored(names):
    """One strategy for a process: a second one would number its collectives from the start again,
    and TensorFlow would take them for the first one's and stop at their shapes."""
    return tf.distribute.MirroredStrategy(list(names))


@functools.cache
def _tpu(name, wait):
    """One for a process: to initialise a TPU anew deletes everything on it."""
    return tpu_strategy(name, wait)


def _multi_worker(workers, index, wait):
    addresses, index = read_cluster(workers, index)
    meet(addresses, index, wait, __version__)
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
