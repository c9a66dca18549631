"""The devices of JAX that a strategy's name asks for."""

from __future__ import annotations

import jax

from tfnlp.accelerators import accelerator, unused
from tfnlp.training.engines.jax_devices import JaxDevices
from tfnlp.training.engines.jax_host import keep_tensorflow_on_cpu


def jax_strategy(name: str, shard_optimizer: bool) -> JaxDevices:
    """Return the devices; see `tfnlp.training.make_strategy` for the names.

    Raises:
        ValueError: for "multi_worker"; if JAX has no such device; for "auto" and "mirrored", if
            this machine has a TPU or GPU that JAX can't use.
    """
    if name == "multi_worker":
        raise ValueError(
            "the strategy 'multi_worker' needs TensorFlow; with Keras on JAX one process trains"
        )
    keep_tensorflow_on_cpu()
    found = accelerator()
    if name in ("auto", "mirrored") and found is not None and jax.default_backend() == "cpu":
        raise ValueError(unused(found))
    if name == "auto":
        return JaxDevices(shard_optimizer=shard_optimizer)
    kind = name if name != "mirrored" else jax.default_backend()
    try:
        devices = jax.devices(kind)
    except RuntimeError as error:
        raise ValueError(f"strategy={name!r}, but JAX has no {name.upper()} here") from error
    if name in ("cpu", "gpu"):
        devices = devices[:1]
    return JaxDevices(devices, shard_optimizer)
