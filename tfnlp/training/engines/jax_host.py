"""TensorFlow beside JAX: it makes the batches, on the CPU."""

from __future__ import annotations

import warnings

import tensorflow as tf


def keep_tensorflow_on_cpu() -> None:
    """Hide TPUs and GPUs from TensorFlow, which would take their memory for itself.

    It must be called before TensorFlow computes anything; else a warning says that it is too late.
    """
    for kind in ("TPU", "GPU"):
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
