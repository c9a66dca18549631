"""One `MirroredStrategy` with several devices for a process.

A second one numbers its collective operations from the start again. TensorFlow takes them for
those of the first, and stops for good where their shapes differ.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import tensorflow as tf

_used: list[tf.distribute.MirroredStrategy] = []  # the one that this process has trained with
_INSTEAD = (
    "use one strategy for the whole process: training.make_strategy('mirrored') returns the same "
    "one each time; to train with another one, start another process"
)


def mirrored(devices: Sequence[str]) -> tf.distribute.MirroredStrategy:
    """Return the process's `MirroredStrategy` for devices such as "/device:GPU:0".

    It is the same one at each call.
    """
    for strategy in _used:
        there = strategy.extended.worker_devices
        if len(there) == len(devices) and all(map(str.endswith, there, devices)):
            return strategy
    return _made(tuple(devices))


@functools.cache
def _made(devices: tuple[str, ...]) -> tf.distribute.MirroredStrategy:
    return tf.distribute.MirroredStrategy(list(devices))


def use(strategy: tf.distribute.Strategy) -> None:
    """Remember which `MirroredStrategy` this process trains with."""
    mirrors = isinstance(strategy, tf.distribute.MirroredStrategy)
    if not mirrors or strategy.num_replicas_in_sync == 1:
        return
    if not _used:
        _used.append(strategy)
    if strategy is not _used[0]:
        raise ValueError(
            "this process has already trained with another MirroredStrategy, and TensorFlow mixes "
            f"up the collective operations of two; {_INSTEAD}"
        )


def mixed_up(error: Exception) -> ValueError | None:
    """Return what to say if an error of TensorFlow comes from two strategies; else None."""
    said = str(error)
    if isinstance(error, tf.errors.OpError) and "ollective" in said and "mismatch" in said:
        return ValueError(
            "TensorFlow has mixed up the collective operations of two MirroredStrategies of this "
            f"process; {_INSTEAD}"
        )
    return None
