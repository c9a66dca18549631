"""How the processes of a cluster find each other before they train with JAX."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence

import jax
from jax._src import xla_bridge

from tfnlp import __version__
from tfnlp.training.cluster.addresses import bind_address
from tfnlp.training.cluster.rendezvous import rendezvous
from tfnlp.training.cluster.workers import read_cluster
from tfnlp.training.engines.jax_devices import JaxDevices
from tfnlp.training.engines.jax_host import keep_tensorflow_on_cpu
from tfnlp.training.engines.jax_strategy import check_used
from tfnlp.training.engines.jax_workers import JaxWorkers

_SHORTEST = 10.0  # seconds that JAX gets to connect processes which have all just answered
_SILENT = 60  # seconds after which JAX takes a process that says nothing for dead


def join(
    workers: Sequence[str] | None,
    index: int | None,
    wait: float,
    shard_optimizer: bool,
) -> JaxDevices:
    """Connect this process with the others, for which it waits; return the devices of all of them.

    JAX ends a process that waits in vain for another one, without an exception and without a name.
    So they meet at a `rendezvous` first. JAX's service then takes over the first worker's port.
    `workers` and `index` are those of `read_cluster`.
    """
    addresses, index = read_cluster(workers, index)
    # JAX itself says so only after the rendezvous, when the others would wait for this process.
    if jax.distributed.is_initialized() or xla_bridge.backends_are_initialized():
        raise ValueError(
            "the strategy 'multi_worker' must be made before anything else runs in JAX"
        )
    deadline = time.monotonic() + wait
    rendezvous(addresses, index, wait, __version__)
    keep_tensorflow_on_cpu()
    if len(addresses) > 1:
        _connect(addresses, index, max(_SHORTEST, deadline - time.monotonic()))
    check_used()
    devices = JaxDevices(shard_optimizer=shard_optimizer, addresses=addresses)
    if len(addresses) > 1 and jax.default_backend() == "cpu":
        # From its first collective operation on Gloo has its own connections, which break at once
        # if a process dies: an exception. JAX's service would abort the process instead, and hold
        # up for minutes the end of one whose partner was killed.
        with _printed_to_stderr():
            JaxWorkers(devices).gather(index)
        jax.distributed.shutdown()
        _close_on_exec()
    return devices


def _connect(addresses: Sequence[str], index: int, seconds: float) -> None:
    # JAX would answer SIGTERM itself, by a note that nothing here reads.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            addresses[0],
            len(addresses),
            index,
            cluster_detection_method="deactivate",
            initialization_timeout=math.ceil(seconds),
            heartbeat_timeout_seconds=_SILENT,
            coordinator_bind_address=bind_address(addresses, 0),
        )
    except jax.errors.JaxRuntimeError as error:
        raise ConnectionError(
            f"JAX can't connect worker {index} ({addresses[index]}) with the others: "
            f"{str(error).splitlines()[0]}; start all workers again, or use another port for the "
            "first one"
        ) from error


@contextlib.contextmanager
def _printed_to_stderr() -> Iterator[None]:
    """Send to stderr what a library prints: Gloo says that it is connected."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def _close_on_exec() -> None:
    """Let the connections to the others end with this program.

    Gloo's would stay open in the one that the command becomes to start again after a worker was
    lost, and the other workers would wait for it.
    """
    for name in os.listdir("/dev/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # that of the list itself
                os.set_inheritable(int(name), False)
