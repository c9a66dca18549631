"""A rendezvous of the processes of a cluster, before TensorFlow or JAX connects them.

TensorFlow waits up to an hour for a missing worker and does not name it. So each worker first
connects to worker 0 and sends a line of JSON: its index, the version, a checksum of the list of
workers. Worker 0 answers all of them when the last one is there, or sends them the names of those
that are missing. What else connects has a few seconds and `_LIMIT` bytes, and holds up nobody.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import ipaddress
import json
import os
import queue
import select
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

_PAUSE = 0.2  # seconds between attempts
_REMIND = 15.0  # seconds between messages that name the missing workers
_GRACE = 5.0  # seconds that the others wait longer than worker 0, whose message names the missing
_HELLO = 5.0  # seconds in which a connection must have said who it is
_AT_ONCE = 64  # connections that have not; more are closed
_LIMIT = 4096  # bytes of a message; a worker's is of some 200
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # the address is not this machine's


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


def host_and_port(address: str) -> tuple[str, int]:
    """Split "host:port" or "[IPv6 host]:port" into ("host", port).

    Raises:
        ValueError: for anything else.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"worker address {address!r} must be host:port, as in 10.0.0.2:2222")
    return host.strip("[]"), int(port)


def listen(name: str, addresses: Sequence[str], index: int) -> list[socket.socket]:
    """Listen at the address that a worker has in the list, and at no other of its machine.

    Where that is impossible, because the others reach this machine under an address that is not its
    own (behind a port forwarding, say), listen at all of its addresses and say so on stderr.

    `addresses` are "host:port" of every worker, this one, called `name` in messages, at `index`.
    """
    host, port = host_and_port(addresses[index])
    listeners: list[socket.socket] = []
    try:
        for family, place in [] if _hides_machine(host, addresses) else _resolve(host, port):
            try:
                listeners.append(socket.create_server(place, family=family, backlog=128))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
        if not listeners:
            print(
                f"{host} is no address of this machine that others can reach; {name} listens at "
                f"port {port} of all its addresses",
                file=sys.stderr,
                flush=True,
            )
            listeners.append(socket.create_server(("", port), backlog=128))
    except OSError as error:
        for listener in listeners:
            listener.close()
        raise ConnectionError(
            f"{name} can't listen at port {port} ({os.strerror(error.errno)}); is this worker "
            "running already? Stop it, or use another port in every worker's list"
        ) from error
    return listeners


def bind_address(addresses: Sequence[str], index: int) -> str:
    """Return "host:port" where another server of a worker should listen: where `listen` does."""
    host, port = host_and_port(addresses[index])
    places = [] if _hides_machine(host, addresses) else _resolve(host, 0)
    for family, place in places:
        with contextlib.suppress(OSError):
            socket.create_server(place, family=family).close()
            return addresses[index]
    return f"[::]:{port}"


def reachable(address: str, seconds: float) -> bool:
    """Return whether something listens at `address`."""
    try:
        socket.create_connection(host_and_port(address), timeout=seconds).close()
    except OSError:
        return False
    return True


def _resolve(host: str, port: int) -> list[tuple[int, Any]]:
    """Return (family, socket address) of each address of a host; none if it has no such name."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys((family, place) for family, _, _, _, place in found))


def _hides_machine(host: str, addresses: Sequence[str]) -> bool:
    """Return whether `host` is a loopback address here, but not for the other workers.

    On Debian the name of a machine is 127.0.1.1 for itself.
    """
    if _is_literal(host) or not _is_loopback(host):
        return False
    others = {host_and_port(address)[0] for address in addresses} - {host}
    return not all(_is_loopback(other) for other in others)


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    found = _resolve(host, 0)
    return bool(found) and all(ipaddress.ip_address(place[0]).is_loopback for _, place in found)
