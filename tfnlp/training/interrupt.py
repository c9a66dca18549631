"""Ctrl-C and SIGTERM as a request to stop after the next step, with a checkpoint."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class StopSignal:
    """While open, `received` is set by SIGINT or SIGTERM; a second signal acts at once."""

    def __init__(self) -> None:
        self.received = False
        self._previous = {}

    def __enter__(self) -> StopSignal:
        # Only the main thread may set handlers; in others signals act as usual.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        self.__exit__()
