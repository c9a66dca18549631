"""Addresses of workers: how they are written, and where a worker listens."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # the address is not this machine's


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
