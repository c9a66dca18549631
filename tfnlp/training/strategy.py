"""Which devices to train on."""

import functools

import tensorflow as tf


def make_strategy(name="auto"):
    """The `tf.distribute` strategy called `name`.

    Args:
        name: "auto" (every GPU if there are several, else the one device there is), "cpu",
            "gpu" (the first one), "mirrored" (every GPU, or every logical CPU).

    Raises:
        ValueError: for another name, or for "gpu" where TensorFlow sees none.
    """
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
    raise ValueError(f"strategy={name!r} is unknown; choose auto, cpu, gpu or mirrored")


def _mirrored(devices):
    return _one_mirrored(tuple(device.name for device in devices))


@functools.cache
def _one_mirrored(names):
    """One strategy for a process: a second one would number its collectives from the start again,
    and TensorFlow would take them for the first one's and stop at their shapes."""
    return tf.distribute.MirroredStrategy(list(names))
