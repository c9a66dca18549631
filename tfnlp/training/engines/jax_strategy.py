"""The devices of JAX that a strategy's name asks for."""

from __future__ import annotations

import jax

from tfnlp.accelerators import accelerator, unused
from tfnlp.training.engines.jax_devices import JaxDevices
from tfnlp.training.engines.jax_host import keep_tensorflow_on_cpu


def jax_strategy(name: str, shard_optimizer: bool) -> JaxDevices:
    """Return the devices; see `tfnlp.training.make_strategy` for the names but "multi_worker"."""
    keep_tensorflow_on_cpu()
    if name in ("auto", "mirrored"):
        check_used()
    if name == "auto":
        return JaxDevices(shard_optimizer=shard_optimizer)
    kind = name if name != "mirrored" else jax.default_backend()
    try:
        devices = jax.local_devices(backend=kind)
    except RuntimeError as error:
        raise ValueError(f"strategy={name!r}, but JAX has no {name.upper()} here") from error
    if name in ("cpu", "gpu"):
        devices = devices[:1]
    return JaxDevices(devices, shard_optimizer)


def check_used() -> None:
    """Check that JAX sees the TPU or GPU of this machine, if it has one."""
    found = accelerator()
    if found is not None and jax.default_backend() == "cpu":
        raise ValueError(unused(found))
