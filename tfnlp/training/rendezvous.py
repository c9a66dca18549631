"""A rendezvous of the processes of a cluster, before TensorFlow or JAX connects them.

TensorFlow waits up to an hour for a missing worker and does not name it. So each worker first
connects to worker 0 and sends a line of JSON: its index, the version, a checksum of the list of
workers. Worker 0 answers all of them when the last one is there, or sends them the names of those
that are missing. What else connects has a few seconds and `_LIMIT` bytes, and holds up nobody.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

_PAUSE = 0.2  # seconds between attempts
_REMIND = 15.0  # seconds between messages that name the missing workers
_GRACE = 5.0  # seconds that the others wait longer than worker 0, whose message names the missing
_HELLO = 5.0  # seconds in which a connection must have said who it is
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
    names = [f"worker {i} ({address})" for i, address in enumerate(addresses)]
    cluster = hashlib.sha256("\n".join(addresses).encode()).hexdigest()
    hello = {"index": index, "version": version, "cluster": cluster}
    meet = _report if index else _gather
    # In a thread of its own: that of a notebook runs a loop of events already.
    in_thread(lambda: asyncio.run(meet(addresses, names, hello, seconds)))


def in_thread(work: Callable[[], T], seconds: float | None = None) -> T:
    """Return the result of `work()`; raise TimeoutError if it takes more than so many seconds."""
    outcome: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except Exception as error:  # raised in the calling thread
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result(seconds)


async def _gather(
    addresses: Sequence[str],
    names: Sequence[str],
    own: dict[str, Any],
    seconds: float,
) -> None:
    """Wait, as worker 0, for all others; then answer them."""
    deadline, remind = time.monotonic() + seconds, time.monotonic() + _REMIND
    arrived: dict[int, asyncio.StreamWriter] = {}
    refused = ""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal refused
        hello = await _receive(reader, _HELLO)
        why = await _why_refused(hello, own, addresses, names)
        if why is not None:
            _send(writer, {"error": why})
            said = f"a connection from {writer.get_extra_info('peername')[0]} was refused: {why}"
            if hello is not None and said != refused:  # else it was no worker
                refused = said
                _say(said)
        else:
            if previous := arrived.pop(hello["index"], None):
                previous.close()
            arrived[hello["index"]] = writer
            with contextlib.suppress(OSError):
                await reader.read()  # ends when the worker has died, which may be started again
            if arrived.get(hello["index"]) is writer:
                del arrived[hello["index"]]
        writer.close()

    async with _listening(addresses[0], names[0], greet):
        while missing := [name for i, name in enumerate(names) if i and i not in arrived]:
            if time.monotonic() > deadline:
                error = _not_started(missing, seconds, refused)
                for writer in arrived.values():
                    _send(writer, {"error": str(error), "late": True})
                raise error
            if time.monotonic() > remind:
                _say(f"waiting for {_listed(missing)}")
                remind += _REMIND
            await asyncio.sleep(_PAUSE)
        for writer in arrived.values():
            _send(writer, {})


async def _why_refused(
    hello: dict[str, Any] | None,
    own: dict[str, Any],
    addresses: Sequence[str],
    names: Sequence[str],
) -> str | None:
    """Return why a connection is not one of this cluster's workers; None if it is.

    Such a worker must be reached at its address.
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
    try:
        _, writer = await _connection(addresses[index], _HELLO)
    except OSError:
        return (
            f"{names[index]} has started, but worker 0 can't reach it at that address; give an "
            "address that the other workers can reach"
        )
    writer.close()
    return None


async def _report(
    addresses: Sequence[str],
    names: Sequence[str],
    hello: dict[str, Any],
    seconds: float,
) -> None:
    """Connect, as any other worker, to worker 0 and wait for its answer."""
    deadline, remind = time.monotonic() + seconds, time.monotonic() + _REMIND
    own = hello["index"]
    # Worker 0 tries whether it can be reached.
    async with _listening(addresses[own], names[own], lambda _, writer: writer.close()):
        while (left := deadline - time.monotonic()) > 0:
            if time.monotonic() > remind:
                _say(f"waiting for {names[0]}")
                remind += _REMIND
            answer = None
            with contextlib.suppress(OSError):
                reader, writer = await _connection(addresses[0], min(5.0, left))
                _send(writer, hello)
                answer = await _receive(reader, left + _GRACE)
                writer.close()
            if answer is None:  # not started yet, or still the process of an earlier run
                await asyncio.sleep(_PAUSE)
            elif "error" not in answer:
                return
            else:
                error = TimeoutError if answer.get("late") else ConnectionError
                raise error(answer["error"])
    raise _not_started(names[:1], seconds)


@contextlib.asynccontextmanager
async def _listening(address: str, name: str, greet: Callable[..., Any]) -> AsyncIterator[None]:
    """Listen, at all addresses of this machine, at the port that a worker has."""
    port = host_and_port(address)[1]
    try:
        server = await asyncio.start_server(greet, port=port, limit=_LIMIT)
    except OSError as error:
        raise ConnectionError(
            f"{name} can't listen at port {port} ({os.strerror(error.errno)}); is this worker "
            "running already? Stop it, or use another port in every worker's list"
        ) from error
    try:
        yield
    finally:
        server.close()


async def _connection(
    address: str, seconds: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = host_and_port(address)
    return await asyncio.wait_for(asyncio.open_connection(host, port, limit=_LIMIT), seconds)


def _send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")


async def _receive(reader: asyncio.StreamReader, seconds: float) -> dict[str, Any] | None:
    """Return one message; None if none comes in so many seconds, or something else."""
    try:
        message = json.loads(await asyncio.wait_for(reader.readline(), seconds))
    except (OSError, ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


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
