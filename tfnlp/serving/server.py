"""The process that serves a module, until it is told to stop."""

import asyncio
import errno
import ipaddress
import logging
import os
import signal
import socket
import sys
from typing import Any

from tfnlp.extras import needed
from tfnlp.serving.app import make_app
from tfnlp.serving.batching import Batcher
from tfnlp.serving.module import load_served
from tfnlp.settings.serve import ServeSettings

_LEFT_OPEN = 5  # seconds for idle connections
_STOPPING = 20  # seconds for what was asked, after a signal
_BACKLOG = 128


def serve(config: ServeSettings) -> None:
    """Serve a module until SIGINT or SIGTERM; then finish what was asked, within 20 s, and return.

    The port is taken before the module is loaded, so that a busy one is said at once. The address
    is printed when requests are answered. A second signal ends at once.
    """
    needed("fastapi", "fastapi", "serve", "`tfnlp serve`")
    with _bound(config.host, config.port) as listening:
        served = load_served(config.module, config.trusted)
        batcher = Batcher(
            served.run, config.batch_size, config.wait / 1000, max_waiting=config.max_waiting
        )
        server = server_of(make_app(served, config, batcher, _is_local(listening)))
        listening.listen(_BACKLOG)
        _say(config, listening, list(served.actions))
        _run(server, listening)
        if server.force_exit:
            raise KeyboardInterrupt("stopped before all requests were answered")
        batcher.close()
    print("tfnlp: stopped", file=sys.stderr)


def server_of(app: Any) -> Any:
    """Return the uvicorn server of an application."""
    uvicorn = needed("uvicorn", "uvicorn", "serve", "`tfnlp serve`")
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_keep_alive=_LEFT_OPEN, lifespan="off",
        server_header=False, timeout_graceful_shutdown=_STOPPING,
    )  # fmt: skip
    # Requests that are ended with the server are counted by one line, without a traceback of each.
    logging.getLogger("uvicorn.error").addFilter(
        lambda said: not said.exc_info or said.exc_info[0] is not asyncio.CancelledError
    )
    return uvicorn.Server(config)


def _run(server: Any, listening: socket.socket) -> None:
    def stop(number: int, frame: Any) -> None:
        server.should_exit = True

    # uvicorn has handlers of its own while it runs. When it has ended it raises the signal again,
    # which must neither end the process nor count as a second one.
    kept = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket with the address, not listening yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise OSError(f"`host` {host} is no address of this machine") from error
    try:
        if os.name == "posix":  # a port whose last connections are still closing is free
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            text = f"`port` {port} of {host} is in use; give another one, or 0 for a free one"
        elif error.errno == errno.EACCES:
            text = f"`port` {port} needs rights that this user does not have; give one above 1023"
        else:
            text = f"`host` {host} can't be listened at: {error.strerror}"
        raise OSError(text) from error
    return bound


def _is_local(bound: socket.socket) -> bool:
    """Return whether only this machine reaches a socket, whatever its address was called."""
    address = ipaddress.ip_address(bound.getsockname()[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _say(config: ServeSettings, listening: socket.socket, actions: list[str]) -> None:
    """Print the address, and a warning if other machines reach it."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    if not _is_local(listening):
        print(
            f"tfnlp: warning: {config.host} is reached by other machines, without authentication "
            "and without encryption",
            file=sys.stderr,
        )
    print(f"{config.module}: {', '.join(actions)}")
    print(f"http://{shown}:{port}/ (Ctrl-C stops it)", flush=True)
