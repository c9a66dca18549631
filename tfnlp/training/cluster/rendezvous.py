"""A rendezvous of the processes of a cluster, before TensorFlow connects them.

TensorFlow waits up to an hour for a missing worker and does not name it. So each worker first
connects to worker 0. It answers all workers when the last one has connected and its address can be
reached, or sends them the names of those that are missing.

A worker sends a line of JSON: its index, the version, a checksum of the list of workers. With a
secret, worker 0 answers with a random challenge, the worker sends its proof, and worker 0's last
answer holds its own (`messages.proof`). The secret itself is never sent.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from typing import Any

from tfnlp.training.cluster.addresses import host_and_port, listen
from tfnlp.training.cluster.gathering import PAUSE, REMIND, Gathering, not_started, remind
from tfnlp.training.cluster.messages import make_hello, proof, proves, receive, send


def rendezvous(
    addresses: Sequence[str],
    index: int,
    seconds: float,
    version: str = "",
    secret: bytes | None = None,
) -> None:
    """Wait until all workers of a cluster have started.

    Args:
        addresses: "host:port" of every worker, the same list at each of them.
        index: which of them this process is.
        seconds: how long to wait.
        version: must be the same at all workers.
        secret: the same for all workers, which prove to worker 0 that they have it, as worker 0
            does to them; None: whoever knows the list can take part.

    Raises:
        TimeoutError: if a worker does not start in time; names it.
        ConnectionError: if this worker's port is in use, or worker 0 refuses it: it has another
            version, list or secret, or can't be reached.
    """
    deadline = time.monotonic() + seconds
    names = [f"worker {i} ({address})" for i, address in enumerate(addresses)]
    hello = make_hello(addresses, index, version, secret)
    with contextlib.ExitStack() as stack:
        listeners = listen(names[index], addresses, index)
        for listener in listeners:
            stack.enter_context(listener)
        if index == 0:
            Gathering(addresses, names, hello, secret).run(listeners, deadline, seconds)
        else:
            _report(addresses[0], names[0], hello, secret, deadline, seconds)


def _report(
    address: str,
    name: str,
    hello: dict[str, Any],
    secret: bytes | None,
    deadline: float,
    seconds: float,
) -> None:
    """Connect, as any other worker, to worker 0 and wait for its answer."""
    reminder = time.monotonic() + REMIND
    while (left := deadline - time.monotonic()) > 0:
        if time.monotonic() > reminder:
            remind([name])
            reminder += REMIND
        try:
            with socket.create_connection(
                host_and_port(address), timeout=min(5.0, left)
            ) as connection:
                # A little longer than worker 0 waits: its message names the missing workers.
                answer = _ask(connection, hello, secret, deadline + 5.0)
        except OSError:
            answer = None
        if answer is None:  # not started yet, or still the process of an earlier run
            time.sleep(PAUSE)
        elif "error" not in answer:
            return
        elif answer.get("late"):
            raise TimeoutError(answer["error"])
        else:
            raise ConnectionError(answer["error"])
    raise not_started([name], seconds)


def _ask(
    connection: socket.socket, hello: dict[str, Any], secret: bytes | None, deadline: float
) -> dict[str, Any] | None:
    """Return worker 0's last answer to a worker's hello; None if there is none."""
    send(connection, hello)
    answer = receive(connection, deadline)
    if answer is None or "error" in answer or not secret:
        return answer
    challenge = str(answer.get("challenge"))
    send(connection, {"proof": proof(secret, "worker", hello, challenge)})
    answer = receive(connection, deadline)
    if answer is None or "error" in answer:
        return answer
    if not proves(answer, proof(secret, "worker 0", hello, challenge)):
        return {"error": "what answers at worker 0's address does not have the `secret_file`"}
    return answer
