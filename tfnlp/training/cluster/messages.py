"""Messages between workers: one line of JSON each, and proofs that the sender has a secret."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import stat
import time
from collections.abc import Sequence
from typing import Any

LIMIT = 4096  # bytes of a message; a worker's is of some 200
_LONGEST_SECRET = 1 << 16


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send a message; it is lost if the other side has closed the connection."""
    try:
        connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # shows when the answer is read


def receive(connection: socket.socket, deadline: float) -> dict[str, Any] | None:
    """Read one message.

    Args:
        connection: of the other side.
        deadline: the time, in seconds of `time.monotonic`, by which all of it must be here.

    Returns:
        the message; None if none comes, or something else.
    """
    data = b""
    try:
        while b"\n" not in data and len(data) <= LIMIT:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            more = connection.recv(LIMIT)
            if not more:
                break
            data += more
    except OSError:
        return None
    return parse(data)


def parse(data: bytes) -> dict[str, Any] | None:
    """Return the message in `data`; None if it is no object of JSON, or too long."""
    if len(data) > LIMIT:
        return None
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def make_hello(
    addresses: Sequence[str], index: int, version: str, secret: bytes | None
) -> dict[str, Any]:
    """Return a worker's first message; those of one cluster differ in "index" and "nonce" only."""
    return {
        "index": index,
        "version": version,
        "cluster": hashlib.sha256("\n".join(addresses).encode()).hexdigest(),
        "nonce": make_nonce() if secret else None,
    }


def make_nonce() -> str:
    """Return a random string that no one has seen before."""
    return os.urandom(32).hex()


def proof(secret: bytes, sender: str, hello: dict[str, Any], challenge: str) -> str:
    """Return what shows that the sender has the secret, for this connection only.

    HMAC-SHA256 of who sends it, the worker's hello (with its nonce) and worker 0's challenge.
    """
    said = json.dumps([sender, hello, challenge], sort_keys=True)
    return hmac.new(secret, said.encode(), "sha256").hexdigest()


def proves(message: dict[str, Any], expected: str) -> bool:
    """Return whether a message holds the expected proof."""
    return hmac.compare_digest(str(message.get("proof")).encode(), expected.encode())


def read_secret(path: str | os.PathLike[str]) -> bytes:
    """Return the secret in a file, without white space around it.

    Raises:
        ValueError: if the file is missing, empty, too long, or open to every user of the machine.
    """
    path = os.path.expanduser(os.fspath(path))
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError(f"`secret_file` {path} is not a file")
        if os.name == "posix" and about.st_mode & 0o007:
            raise ValueError(
                f"`secret_file` {path} is open to every user of this machine; run chmod 600 {path}"
            )
        with open(path, "rb") as file:
            secret = file.read(_LONGEST_SECRET + 1)
    except OSError as error:
        raise ValueError(f"`secret_file` {path} can't be read: {error.strerror}") from error
    if len(secret) > _LONGEST_SECRET:
        raise ValueError(f"`secret_file` {path} is longer than {_LONGEST_SECRET} bytes")
    if not secret.strip():
        raise ValueError(
            f"`secret_file` {path} is empty; write one secret to it for all workers, such as the "
            "output of openssl rand -hex 32"
        )
    return secret.strip()
