"""Rows of several requests, computed together by one thread."""

import collections
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

Run = Callable[[Hashable, list[Any]], list[Any]]


class Overloaded(Exception):
    """More rows wait than are allowed."""


class Closed(Exception):
    """The server is being stopped."""


@dataclass(eq=False)
class _Request:
    key: Hashable
    rows: list[Any]
    size: int
    future: Future = field(default_factory=Future)


class Batcher:
    """Queue whose requests are computed together, by one thread.

    A request waits at most `wait` seconds for others with the same key, or until there are
    `batch_size` rows. Requests with other keys keep their turn. If the rows of several requests
    can't be computed together, each request is computed alone, so that one does not fail for the
    fault of another.

    Args:
        run: function of (key, rows) to a list of results, one for each row.
        batch_size: rows of a call of `run`; a request of more rows is computed in several calls.
        wait: seconds.
        max_waiting: the most that the sizes of waiting requests may sum to.
    """

    def __init__(
        self, run: Run, batch_size: int = 32, wait: float = 0.005, max_waiting: int = 1024
    ) -> None:
        self._run, self._batch_size = run, batch_size
        self._wait, self._max_waiting = wait, max_waiting
        self._waiting: collections.deque[_Request] = collections.deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="tfnlp-model", daemon=True)
        self._thread.start()

    def submit(self, key: Hashable, rows: Sequence[Any], size: int | None = None) -> Future:
        """Return the future list of the results of rows.

        Only rows with equal keys are computed together. The request counts for `size`, or its
        number of rows.

        Raises:
            Overloaded: if too much waits already.
            Closed: after `close`.
        """
        request = _Request(key, list(rows), len(rows) if size is None else size)
        with self._changed:
            if self._closed:
                raise Closed("the server is being stopped")
            waiting = sum(one.size for one in self._waiting)
            if waiting and request.size and waiting + request.size > self._max_waiting:
                raise Overloaded(f"{waiting:,} texts are waiting; try again later")
            self._waiting.append(request)
            self._changed.notify_all()
        return request.future

    def close(self) -> None:
        """Compute what waits, a part of each at most, then end the thread; refuse new requests."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            _answer(batch, self._computed)

    def _next(self) -> list[_Request] | None:
        """Return the requests to be computed together; None when all is done."""
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            batch = [self._waiting.popleft()]
            end = time.monotonic() + self._wait
            while True:
                self._join(batch)
                left = end - time.monotonic()
                full = sum(len(one.rows) for one in batch) >= self._batch_size
                if full or left <= 0 or self._closed:
                    return batch
                self._changed.wait(left)

    def _join(self, batch: list[_Request]) -> None:
        """Move waiting requests of the same key to the batch while they fit."""
        count = sum(len(one.rows) for one in batch)
        for request in list(self._waiting):
            if request.key == batch[0].key and count + len(request.rows) <= self._batch_size:
                self._waiting.remove(request)
                batch.append(request)
                count += len(request.rows)

    def _computed(self, key: Hashable, rows: list[Any]) -> list[Any]:
        found = []
        for first in range(0, len(rows), self._batch_size):
            if first and self._closed:  # nobody waits for the rest
                raise Closed("the server is being stopped")
            found += self._run(key, rows[first : first + self._batch_size])
        return found


def _answer(batch: list[_Request], computed: Run) -> None:
    batch = [request for request in batch if request.future.set_running_or_notify_cancel()]
    if not batch:
        return
    try:
        results = computed(batch[0].key, [row for request in batch for row in request.rows])
    except Exception as error:
        if len(batch) == 1:
            batch[0].future.set_exception(error)
            return
        for request in batch:
            try:
                request.future.set_result(computed(request.key, request.rows))
            except Exception as own:
                request.future.set_exception(own)
        return
    for request in batch:
        count = len(request.rows)
        request.future.set_result(results[:count])
        results = results[count:]
