"""Finding a TPU, or saying within a time limit that there is none."""

import glob
import os
import socket
import threading

import tensorflow as tf

from tfnlp.training.cluster.peers import host_and_port


def tpu_here():
    """The name of the TPU that this machine offers by itself, as on Colab, or None."""
    if os.environ.get("COLAB_TPU_ADDR"):
        return f"grpc://{os.environ['COLAB_TPU_ADDR']}"
    if os.environ.get("TPU_NAME"):
        return os.environ["TPU_NAME"]
    chips = glob.glob("/dev/accel*") or glob.glob("/dev/vfio/[0-9]*")
    return "local" if chips and tf.config.list_physical_devices("TPU") else None


def tpu_strategy(name, seconds):
    """A `TPUStrategy` for the TPU called `name`.

    Args:
        name: "local" (chips of this machine), the name of a Cloud TPU, or grpc://host:port;
            None: what `tpu_here` finds.
        seconds: how long to wait for it.

    Raises:
        ValueError: if there is no such TPU.
        TimeoutError: if it does not answer.
    """
    name = name or tpu_here()
    if not name:
        raise ValueError(
            "strategy='tpu', but this machine has no TPU; name one with --tpu, or choose another "
            "--strategy"
        )
    _check_address(name, seconds)
    return tf.distribute.TPUStrategy(_within(seconds, name, lambda: _connect(name)))


def _check_address(name, seconds):
    """A TPU that is named by its address must answer there: TensorFlow would wait for ever."""
    if not name.startswith("grpc://"):
        return
    address = name.removeprefix("grpc://")
    try:
        socket.create_connection(host_and_port(address), timeout=min(seconds, 30)).close()
    except OSError as error:
        raise ValueError(
            f"no TPU answers at {address} ({error.strerror or error}); is it running, and the "
            "address right?"
        ) from error


def _connect(name):
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return resolver


def _within(seconds, name, connect):
    """What `connect()` returns; TensorFlow itself knows no time limit there."""
    outcome = {}

    def work():
        try:
            outcome["resolver"] = connect()
        except Exception as error:  # raised below, in the thread that asked
            outcome["error"] = error

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"the TPU {name!r} did not answer within {seconds:g} seconds")
    if "error" in outcome:
        said = str(outcome["error"]).strip().split("\n")[0]
        hint = ""
        if "No OpKernel" in said:
            said = "this TensorFlow was built without TPUs"
            hint = "; pip install tensorflow-tpu==2.20.0 libtpu==0.0.21"
        raise ValueError(f"there is no TPU {name!r}: {said[:300]}{hint}") from outcome["error"]
    return outcome["resolver"]
