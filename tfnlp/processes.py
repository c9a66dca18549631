"""Processes of this machine, as the names of temporary files and lock files tell them apart."""

import os
import socket
import zlib


def place() -> str:
    """Return 8 hex digits for this machine and its process numbers; a container has its own."""
    numbers = "/proc/self/ns/pid"
    space = os.readlink(numbers) if os.path.islink(numbers) else ""
    return f"{zlib.crc32(f'{socket.gethostname()} {space}'.encode()):08x}"


def has_ended(pid: int) -> bool:
    """Return whether no process of this `place` has the number `pid`; False where in doubt."""
    if os.name == "nt":  # there `os.kill` ends a process
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # a process of another user
        pass
    return False
