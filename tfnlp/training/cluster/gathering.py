"""Worker 0's side of the rendezvous: it waits for its workers, whoever else connects."""

from __future__ import annotations

import dataclasses
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from tfnlp.training.cluster.addresses import reachable
from tfnlp.training.cluster.messages import LIMIT, make_nonce, parse, proof, proves, send

PAUSE = 0.2  # seconds between attempts
REMIND = 15.0  # seconds between messages that name the missing workers
_HELLO = 5.0  # seconds in which a connection must have said and proved who it is
_AT_ONCE = 64  # connections that have not; then the oldest is closed
_TOLD = 10  # refusals that are printed
_FOREIGN = "it sent something else than a worker does"
_OTHER_SECRET = "the worker has another secret than worker 0; give all the same `secret_file`"


@dataclasses.dataclass(eq=False)
class _Visitor:
    """A connection that has not yet shown that it is one of the workers."""

    connection: socket.socket
    host: str
    deadline: float
    data: bytes = b""
    hello: dict[str, Any] | None = None
    challenge: str = ""


class Gathering:
    """Waits, as worker 0, for all others; then answers them.

    One thread serves all connections, so a slow one does not hold up the others. A connection has
    a few seconds and `LIMIT` bytes. One that is not a worker of this cluster is answered with a
    line that says why, and forgotten.

    Args:
        addresses: "host:port" of every worker.
        names: of the workers, in messages.
        own: worker 0's hello, which those of the others must match.
        secret: that the workers must have; None if they need none.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        names: Sequence[str],
        own: dict[str, Any],
        secret: bytes | None,
    ) -> None:
        self._addresses, self._names, self._own, self._secret = addresses, names, own, secret
        self._selector = selectors.DefaultSelector()
        self._visitors: list[_Visitor] = []
        self._arrived: dict[int, _Visitor] = {}
        self._refused: list[str] = []

    def run(self, listeners: Sequence[socket.socket], deadline: float, seconds: float) -> None:
        """Wait until all workers are there.

        Args:
            listeners: sockets at which they connect.
            deadline: how long, in seconds of `time.monotonic`.
            seconds: how long that is, for messages.

        Raises:
            TimeoutError: if a worker does not come in time; names it.
        """
        self._deadline = deadline
        for listener in listeners:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ)
        reminder = time.monotonic() + REMIND
        try:
            while missing := self._missing():
                now = time.monotonic()
                if now > deadline:
                    error = not_started(missing, seconds, self._refused)
                    self._answer({"error": str(error), "late": True})
                    raise error
                if now > reminder:
                    remind(missing)
                    reminder += REMIND
                self._serve()
            self._answer({})
        finally:
            for visitor in [*self._visitors, *self._arrived.values()]:
                visitor.connection.close()
            self._selector.close()

    def _missing(self) -> list[str]:
        """Return the names of those that are not there, or that have died since they came."""
        for index, visitor in list(self._arrived.items()):
            if _closed(visitor.connection):  # it may be restarted
                self._arrived.pop(index).connection.close()
        return [n for i, n in enumerate(self._names) if i and i not in self._arrived]

    def _answer(self, message: dict[str, Any]) -> None:
        for visitor in self._arrived.values():
            if self._secret:
                signed = proof(self._secret, "worker 0", visitor.hello, visitor.challenge)
                send(visitor.connection, {**message, "proof": signed})
            else:
                send(visitor.connection, message)

    def _serve(self) -> None:
        """Read what has come within `PAUSE` seconds; refuse those whose time is over."""
        for key, _ in self._selector.select(PAUSE):
            if isinstance(key.data, _Visitor):
                if key.data in self._visitors:  # not forgotten a moment ago
                    self._read(key.data)
            else:
                self._accept(key.fileobj)
        now = time.monotonic()
        for visitor in [v for v in self._visitors if now > v.deadline]:
            self._refuse(visitor, f"it sent no whole message within {_HELLO:g} seconds")

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, place = listener.accept()
        except OSError:  # it was closed again
            return
        connection.setblocking(False)
        visitor = _Visitor(connection, place[0], time.monotonic() + _HELLO)
        self._visitors.append(visitor)
        self._selector.register(connection, selectors.EVENT_READ, visitor)
        if len(self._visitors) > _AT_ONCE:
            self._forget(self._visitors[0])

    def _read(self, visitor: _Visitor) -> None:
        try:
            more = visitor.connection.recv(LIMIT)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        if not more:
            return self._forget(visitor)
        visitor.data += more
        if not visitor.data.endswith(b"\n") and len(visitor.data) <= LIMIT:
            return None
        message, visitor.data = parse(visitor.data), b""
        return self._judge(visitor, message)

    def _judge(self, visitor: _Visitor, message: dict[str, Any] | None) -> None:
        """Take a visitor's hello or, after the challenge, its proof."""
        if message is None:
            why = _FOREIGN
        elif visitor.hello is None:
            visitor.hello = message
            why = self._why_foreign(message)
            if why is None and self._secret:
                visitor.challenge = make_nonce()
                return send(visitor.connection, {"challenge": visitor.challenge})
        else:
            expected = proof(self._secret, "worker", visitor.hello, visitor.challenge)
            why = None if proves(message, expected) else _OTHER_SECRET
        return self._refuse(visitor, why) if why else self._admit(visitor)

    def _why_foreign(self, hello: dict[str, Any]) -> str | None:
        """Return why a hello is not one of this cluster; None if it is."""
        own, index = self._own, hello.get("index")
        if type(index) is not int:
            return _FOREIGN
        worker = f"worker {_shown(index)}"
        if hello.get("version") != own["version"]:
            return (
                f"{worker} has another version of tfnlp ({_shown(hello.get('version'))}) "
                f"than worker 0 ({own['version']}); start all workers with the same one"
            )
        if hello.get("cluster") != own["cluster"]:
            return (
                f"{worker} has another list of workers than worker 0; start all workers "
                "with the same one"
            )
        if index not in range(1, len(self._names)):
            return f"two workers have the index {_shown(index)}; give each worker its own"
        if isinstance(hello.get("nonce"), str) != bool(self._secret):
            one, other = (0, index) if self._secret else (index, 0)
            return f"worker {one} has a `secret_file`, but worker {other} has none; give it to all"
        return None

    def _admit(self, visitor: _Visitor) -> None:
        index = visitor.hello["index"]
        left = max(PAUSE, self._deadline - time.monotonic())
        there = reachable(self._addresses[index], min(_HELLO, left))
        if _closed(visitor.connection):  # it died, and what listens there is its successor
            return self._forget(visitor)
        if not there:
            return self._refuse(
                visitor,
                f"{self._names[index]} has started, but worker 0 can't reach it at that address; "
                "give an address that the other workers can reach",
            )
        self._visitors.remove(visitor)
        self._selector.unregister(visitor.connection)
        if index in self._arrived:  # it was restarted
            self._arrived[index].connection.close()
        self._arrived[index] = visitor
        return None

    def _refuse(self, visitor: _Visitor, why: str) -> None:
        send(visitor.connection, {"error": why})
        self._forget(visitor)
        said = f"a connection from {visitor.host} was refused: {why}"
        if said not in self._refused and len(self._refused) < _TOLD:
            self._refused.append(said)
            print(said, file=sys.stderr, flush=True)

    def _forget(self, visitor: _Visitor) -> None:
        self._visitors.remove(visitor)
        self._selector.unregister(visitor.connection)
        visitor.connection.close()


def _closed(connection: socket.socket) -> bool:
    """Return whether the other side of a connection that does not block has closed it."""
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def not_started(names: Sequence[str], seconds: float, refused: Sequence[str] = ()) -> TimeoutError:
    """Return the error for workers that have not come in time.

    Args:
        names: of these workers.
        seconds: how long was waited.
        refused: what was said about connections that were not workers.
    """
    said = (
        f"{_listed(names)} did not start within {seconds:g} seconds; start every worker with "
        "the same list of workers and its own index, and check that no firewall is between them"
    )
    return TimeoutError("; ".join([said, *refused[-1:]]))


def remind(names: Sequence[str]) -> None:
    """Say on stderr who is missing."""
    print(f"waiting for {_listed(names)}", file=sys.stderr, flush=True)


def _listed(names: Sequence[str]) -> str:
    """Return some names in words: messages have a limit."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more


def _shown(value: Any) -> str:
    """Return what a stranger sent, short and printable."""
    return "".join(c if c.isprintable() else "?" for c in str(value)[:40])
