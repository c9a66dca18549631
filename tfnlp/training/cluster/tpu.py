"""Connection to a TPU, within a time limit."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

from tfnlp.accelerators import has_tpu
from tfnlp.training.cluster.addresses import host_and_port

T = TypeVar("T")


def tpu_here() -> str | None:
    """Return the name of the TPU that this machine has or names, as on Colab, or None."""
    if os.environ.get("COLAB_TPU_ADDR"):
        return f"grpc://{os.environ['COLAB_TPU_ADDR']}"
    if os.environ.get("TPU_NAME"):
        return os.environ["TPU_NAME"]
    return "local" if has_tpu() and tf.config.list_physical_devices("TPU") else None


def tpu_strategy(name: str | None, seconds: float) -> tf.distribute.TPUStrategy:
    """Return a `TPUStrategy` for a TPU, for which it waits so many seconds.

    `name` is "local" (chips of this machine), the name of a Cloud TPU, or grpc://host:port; None:
    the one that `tpu_here` finds.
    """
    name = name or tpu_here()
    if not name:
        raise ValueError(
            "strategy='tpu', but this machine has no TPU; name one with --tpu, or choose another "
            "--strategy"
        )
    _check_address(name, seconds)
    return tf.distribute.TPUStrategy(_within(seconds, name, lambda: _connect(name)))


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


def _within(seconds: float, name: str, connect: Callable[[], T]) -> T:
    """Return the result of `connect()`, for which TensorFlow itself has no time limit."""
    outcome = {}

    def work() -> None:
        try:
            outcome["resolver"] = connect()
        except Exception as error:  # raised below, in the calling thread
            outcome["error"] = error

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"the TPU {name!r} did not answer within {seconds:g} seconds")
    if "error" in outcome:
        reason = str(outcome["error"]).strip().split("\n")[0]
        hint = ""
        if "No OpKernel" in reason:
            reason = "this TensorFlow was built without TPUs"
            hint = "; pip install tensorflow-tpu==2.20.0 libtpu==0.0.21"
        raise ValueError(f"there is no TPU {name!r}: {reason[:300]}{hint}") from outcome["error"]
    return outcome["resolver"]
