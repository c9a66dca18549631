"""A rendezvous of the processes of a cluster, before TensorFlow connects them.

TensorFlow waits up to an hour for a missing worker and does not name it. So each worker first
connects to worker 0. It answers all workers when the last one has connected and its address can be
reached, or sends them the names of those that are missing.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

_PAUSE = 0.2  # seconds between attempts
_REMIND = 15.0  # seconds between messages that name the missing workers


def rendezvous(addresses: Sequence[str], index: int, seconds: float, version: str = "") -> None:
    """Wait until all workers of a cluster have started.

    Args:
        addresses: "host:port" of every worker, the same list at each of them.
        index: which of them this process is.
        seconds: how long to wait.
        version: must be the same at all workers.

    Raises:
        TimeoutError: if a worker does not start in time; names it.
        ConnectionError: if this worker's port is in use, or the others belong to another cluster.
    """
    deadline = time.monotonic() + seconds
    names = [f"worker {i} ({address})" for i, address in enumerate(addresses)]
    hello = {"index": index, "addresses": list(addresses), "version": version}
    with _listen(names[index], addresses[index]) as listener:
        if index == 0:
            _gather(listener, names, hello, deadline, seconds)
        else:
            _report(names, hello, deadline, seconds)


def host_and_port(address: str) -> tuple[str, int]:
    """Split "host:port" or "[IPv6 host]:port" into ("host", port).

    Raises:
        ValueError: for anything else.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"worker address {address!r} must be host:port, as in 10.0.0.2:2222")
    return host.strip("[]"), int(port)


def _listen(name: str, address: str) -> socket.socket:
    _, port = host_and_port(address)
    try:
        return socket.create_server(("", port), backlog=128)
    except OSError as error:
        raise ConnectionError(
            f"{name} can't listen at port {port} ({error.strerror}); is this worker running "
            "already? Stop it, or use another port in every worker's list"
        ) from error


def _gather(
    listener: socket.socket, names: list[str], hello: dict, deadline: float, seconds: float
) -> None:
    """Wait, as worker 0, for all others; then answer them."""
    addresses, arrived = hello["addresses"], {}
    listener.settimeout(_PAUSE)
    reminder = time.monotonic() + _REMIND
    try:
        while len(arrived) < len(names) - 1:
            missing = [n for i, n in enumerate(names) if i and i not in arrived]
            if time.monotonic() > deadline:
                raise _missing(missing, seconds)
            if time.monotonic() > reminder:
                _remind(missing)
                reminder += _REMIND
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            index = _read_hello(connection, hello)
            if index is None:
                connection.close()
                continue
            if index in arrived:  # it was restarted
                arrived.pop(index).close()
            reachable = _reachable(addresses[index], deadline)
            if not reachable and _is_closed(connection):  # it died, and may be restarted
                connection.close()
                continue
            arrived[index] = connection
            if not reachable:
                raise ConnectionError(
                    f"{names[index]} has started, but worker 0 can't reach it at that address; "
                    "give an address that the other workers can reach"
                )
    except (TimeoutError, ConnectionError) as error:
        for connection in arrived.values():
            _send(connection, {"error": str(error), "late": isinstance(error, TimeoutError)})
        raise
    for connection in arrived.values():
        _send(connection, {})


def _read_hello(connection: socket.socket, own: dict) -> int | None:
    """Return the index in a worker's first message; None if there is no such message.

    Raises:
        ConnectionError: if the worker belongs to another cluster; the worker gets the same message.
    """
    connection.settimeout(5.0)
    hello = _receive(connection)
    if not isinstance(hello, dict) or "index" not in hello:
        return None
    for key, what in (("addresses", "list of workers"), ("version", "version of tfnlp")):
        if hello.get(key) != own[key]:
            error = (
                f"worker {hello['index']} has another {what} ({hello.get(key)}) than worker 0 "
                f"({own[key]}); start all workers with the same one"
            )
            _send(connection, {"error": error})
            raise ConnectionError(error)
    if hello["index"] not in range(1, len(own["addresses"])):
        error = f"two workers have the index {hello['index']}; give each worker its own"
        _send(connection, {"error": error})
        raise ConnectionError(error)
    return hello["index"]


def _reachable(address: str, deadline: float) -> bool:
    limit = min(5.0, max(_PAUSE, deadline - time.monotonic()))
    try:
        socket.create_connection(host_and_port(address), timeout=limit).close()
    except OSError:
        return False
    return True


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _report(names: list[str], hello: dict, deadline: float, seconds: float) -> None:
    """Connect, as any other worker, to worker 0 and wait for its answer."""
    leader = host_and_port(hello["addresses"][0])
    reminder = time.monotonic() + _REMIND
    while (left := deadline - time.monotonic()) > 0:
        if time.monotonic() > reminder:
            _remind(names[:1])
            reminder += _REMIND
        try:
            with socket.create_connection(leader, timeout=min(5.0, left)) as connection:
                _send(connection, hello)
                # A little longer than worker 0 waits: its message names the missing workers.
                connection.settimeout(left + 5.0)
                answer = _receive(connection)
        except OSError:
            answer = None
        if answer is None:  # not started yet, or still the process of an earlier run
            time.sleep(_PAUSE)
        elif answer.get("late"):
            raise TimeoutError(answer["error"])
        elif "error" in answer:
            raise ConnectionError(answer["error"])
        else:
            return
    raise _missing(names[:1], seconds)


def _missing(names: list[str], seconds: float) -> TimeoutError:
    return TimeoutError(
        f"{', '.join(names)} did not start within {seconds:g} seconds; start every worker with "
        "the same list of workers and its own index, and check that no firewall is between them"
    )


def _remind(names: list[str]) -> None:
    print(f"waiting for {', '.join(names)}", file=sys.stderr, flush=True)


def _send(connection: socket.socket, message: dict) -> None:
    try:
        connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # the other side has closed, which shows when its answer is read


def _receive(connection: socket.socket) -> Any:
    """Read one line of JSON; return None if none arrives, or something else."""
    data = b""
    try:
        while not data.endswith(b"\n") and data[:1] in (b"", b"{") and len(data) < 1 << 20:
            more = connection.recv(1 << 16)
            if not more:
                break
            data += more
        return json.loads(data)
    except (OSError, ValueError):
        return None
