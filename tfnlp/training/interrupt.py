"""Ctrl-C and SIGTERM as a request to stop at the next step, with a checkpoint."""

import signal
import threading


class StopSignal:
    """While open, `received` tells whether SIGINT or SIGTERM came; a second one acts at once."""

    def __init__(self):
        self.received = False
        self._previous = {}

    def __enter__(self):
        # Only the main thread may set handlers; elsewhere signals act as they always do.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception):
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number, frame):
        self.received = True
        self.__exit__()
