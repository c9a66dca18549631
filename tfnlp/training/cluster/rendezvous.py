"""A rendezvous of the processes of a cluster, before TensorFlow or JAX connects them.

TensorFlow waits up to an hour for a missing worker and does not name it. So each worker first
connects to worker 0 and sends a line of JSON: its index, the version, a checksum of the list of
workers. Worker 0 answers all of them when the last one is there, or sends them the names of those
that are missing. What else connects has a few seconds and `_LIMIT` bytes, and holds up nobody.
"""

from __future__ import annotations

import hashlib
import json
import queue
import select
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from tfnlp.training.cluster.addresses import host_and_port, listen, reachable

_PAUSE = 0.2  # seconds between attempts
_REMIND = 15.0  # seconds between messages that name the missing workers
_GRACE = 5.0  # seconds that the others wait longer than worker 0, whose message names the missing
_HELLO = 5.0  # seconds in which a connection must have said who it is
_AT_ONCE = 64  # connections that have not; more are closed
_LIMIT = 4096  # bytes of a message; a worker's is of some 200


def rendezvous(addresses: Sequence[str], index: int, seconds: float, version: str = "") -> None:
    """Wait until all workers of a cluster have started.

    Args:
        addresses: "host:port" of every worker, the same list at each of them.
        index: which of them this process is.
        seconds: how long to wait.
        version: must be the same at all workers.

    Raises:
        TimeoutError: if a worker does not start in time; names it.
        ConnectionError: if this worker's port is in use, or worker 0 refuses it: it has another
            version or list, or can't be reached.
    """
    deadline = time.monotonic() + seconds
    names = [f"worker {i} ({address})" for i, address in enumerate(addresses)]
    cluster = hashlib.sha256("\n".join(addresses).encode()).hexdigest()
    hello = {"index": index, "version": version, "cluster": cluster}
    listeners = listen(names[index], addresses, index)
    try:
        if index == 0:
            _gather(listeners, addresses, names, hello, deadline, seconds)
        else:
            _report(addresses[0], names[0], hello, deadline, seconds)
    finally:
        for listener in listeners:
            listener.close()


def _gather(
    listeners: Sequence[socket.socket],
    addresses: Sequence[str],
    names: Sequence[str],
    own: dict[str, Any],
    deadline: float,
    seconds: float,
) -> None:
    """Wait, as worker 0, for all others; then answer them."""
    arrived: dict[int, socket.socket] = {}
    hellos: queue.SimpleQueue[tuple[socket.socket, str, Any]] = queue.SimpleQueue()
    readers: list[threading.Thread] = []
    refused = ""
    for listener in listeners:
        listener.setblocking(False)
    remind = time.monotonic() + _REMIND
    try:
        while True:
            for index in [i for i, connection in arrived.items() if _closed(connection)]:
                arrived.pop(index).close()  # it has died, and may be started again
            missing = [name for i, name in enumerate(names) if i and i not in arrived]
            if not missing:
                break
            now = time.monotonic()
            if now > deadline:
                error = _not_started(missing, seconds, refused)
                for connection in arrived.values():
                    _send(connection, {"error": str(error), "late": True})
                raise error
            if now > remind:
                print(f"waiting for {_listed(missing)}", file=sys.stderr, flush=True)
                remind += _REMIND
            readers = [thread for thread in readers if thread.is_alive()]
            readers += _accept(listeners, hellos, _AT_ONCE - len(readers))
            while not hellos.empty():
                connection, host, hello = hellos.get()
                left = max(_PAUSE, deadline - time.monotonic())
                why = _why_refused(hello, own, addresses, names, min(_HELLO, left))
                if why is None:
                    if previous := arrived.pop(hello["index"], None):
                        previous.close()
                    arrived[hello["index"]] = connection
                    continue
                _send(connection, {"error": why})
                connection.close()
                said = f"a connection from {host} was refused: {why}"
                if hello is not None and said != refused:  # else it was no worker
                    print(said, file=sys.stderr, flush=True)
                    refused = said
        for connection in arrived.values():
            _send(connection, {})
    finally:
        for connection in arrived.values():
            connection.close()


def _accept(
    listeners: Sequence[socket.socket],
    hellos: queue.SimpleQueue[tuple[socket.socket, str, Any]],
    most: int,
) -> list[threading.Thread]:
    """Wait for connections; return threads that put each one and its first message in a queue."""

    def read(connection: socket.socket, host: str) -> None:
        hellos.put((connection, host, _receive(connection, time.monotonic() + _HELLO)))

    readers = []
    for listener in select.select(listeners, [], [], _PAUSE)[0]:
        try:
            connection, place = listener.accept()
        except OSError:  # it was closed again
            continue
        if len(readers) >= most:
            connection.close()
            continue
        readers.append(threading.Thread(target=read, args=(connection, place[0]), daemon=True))
        readers[-1].start()
    return readers


def _why_refused(
    hello: dict[str, Any] | None,
    own: dict[str, Any],
    addresses: Sequence[str],
    names: Sequence[str],
    seconds: float,
) -> str | None:
    """Return why a connection is not one of this cluster's workers; None if it is.

    Such a worker must be reached at its address within so many seconds.
    """
    index = None if hello is None else hello.get("index")
    if type(index) is not int or not 0 <= index < 1_000_000:
        return "it sent something else than a worker does"
    if hello.get("version") != own["version"]:
        return (
            f"worker {index} has another version of tfnlp ({str(hello.get('version'))[:20]!r}) "
            f"than worker 0 ({own['version']!r}); start all workers with the same one"
        )
    if hello.get("cluster") != own["cluster"]:
        return (
            f"worker {index} has another list of workers than worker 0; start all workers with "
            "the same one"
        )
    if index not in range(1, len(names)):
        return f"two workers have the index {index}; give each worker its own"
    if not reachable(addresses[index], seconds):
        return (
            f"{names[index]} has started, but worker 0 can't reach it at that address; give an "
            "address that the other workers can reach"
        )
    return None


def _report(
    address: str, name: str, hello: dict[str, Any], deadline: float, seconds: float
) -> None:
    """Connect, as any other worker, to worker 0 and wait for its answer."""
    remind = time.monotonic() + _REMIND
    while (left := deadline - time.monotonic()) > 0:
        if time.monotonic() > remind:
            print(f"waiting for {name}", file=sys.stderr, flush=True)
            remind += _REMIND
        answer = None
        try:
            with socket.create_connection(host_and_port(address), min(5.0, left)) as connection:
                _send(connection, hello)
                answer = _receive(connection, deadline + _GRACE)
        except OSError:
            pass
        if answer is None:  # not started yet, or still the process of an earlier run
            time.sleep(_PAUSE)
        elif "error" not in answer:
            return
        else:
            error = TimeoutError if answer.get("late") else ConnectionError
            raise error(answer["error"])
    raise _not_started([name], seconds)


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send a message; it is lost if the other side has closed the connection."""
    try:
        connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # shows when the answer is read


def _receive(connection: socket.socket, deadline: float) -> dict[str, Any] | None:
    """Return one message; None if none comes by `deadline`, or something else."""
    data = b""
    try:
        while b"\n" not in data and len(data) <= _LIMIT:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            more = connection.recv(_LIMIT)
            if not more:
                break
            data += more
        message = json.loads(data) if len(data) <= _LIMIT else None
    except (OSError, ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _closed(connection: socket.socket) -> bool:
    """Return whether the other side has closed a connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _not_started(names: Sequence[str], seconds: float, refused: str = "") -> TimeoutError:
    """Return the error for workers that have not come in time, and what was refused last."""
    said = (
        f"{_listed(names)} did not start within {seconds:g} seconds; start every worker with "
        "the same list of workers and its own index, and check that no firewall is between them"
    )
    return TimeoutError("; ".join(filter(None, [said, refused])))


def _listed(names: Sequence[str]) -> str:
    """Return some names in words: messages have a limit."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more
