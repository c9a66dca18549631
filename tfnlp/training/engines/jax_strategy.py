"""The devices of JAX that a strategy's name asks for."""

from __future__ import annotations

import os
from collections.abc import Sequence

import jax

from tfnlp import __version__
from tfnlp.training.cluster.messages import read_secret
from tfnlp.training.cluster.rendezvous import rendezvous
from tfnlp.training.cluster.workers import read_cluster
from tfnlp.training.engines.jax_devices import JaxDevices


def jax_strategy(
    name: str,
    workers: Sequence[str] | None,
    index: int | None,
    wait: float,
    secret_file: str | os.PathLike[str] | None,
    shard_optimizer: bool,
) -> JaxDevices:
    """Return the devices; see `tfnlp.training.make_strategy` for names and arguments.

    Raises:
        ValueError: if JAX has no such device, or "multi_worker" comes too late.
    """
    if name == "multi_worker":
        _connect(workers, index, wait, secret_file)
    if name in ("auto", "multi_worker"):
        return JaxDevices(shard_optimizer=shard_optimizer)
    kind = name if name != "mirrored" else jax.default_backend()
    try:
        devices = jax.devices(kind)
    except RuntimeError as error:
        raise ValueError(f"strategy={name!r}, but JAX has no {name.upper()} here") from error
    if name in ("cpu", "gpu"):
        devices = devices[:1]
    return JaxDevices(devices, shard_optimizer)


def _connect(
    workers: Sequence[str] | None,
    index: int | None,
    wait: float,
    secret_file: str | os.PathLike[str] | None,
) -> None:
    """Connect this process with the other workers."""
    addresses, index = read_cluster(workers, index)
    secret = None if secret_file is None else read_secret(secret_file)
    rendezvous(addresses, index, wait, __version__, secret)
    try:
        jax.distributed.initialize(
            addresses[0], len(addresses), index, initialization_timeout=max(1, round(wait))
        )
    except RuntimeError as error:
        raise ValueError(
            "the strategy 'multi_worker' must be made before anything else runs in JAX"
        ) from error
