"""A profile of a few steps: the time of each operation."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import keras
import tensorflow as tf


class Profile:
    """A profile of whole calls into TensorFlow or JAX, which does not change the results.

    It is written to `directory/logs/plugins/profile`, where TensorBoard's Profile tab (the package
    tensorboard-plugin-profile) finds it. A call of several steps is one step there.

    Args:
        directory: the run's, or None.
        span: `(first, last)`: begin with the call that makes step number `first` of this start,
            end with the one that makes step number `last`; None profiles nothing. The first call
            traces and compiles, so begin after it.
        step: the first step of this start.
    """

    def __init__(self, directory: str | None, span: tuple[int, int] | None, step: int) -> None:
        self._span, self._running, self._done = span, False, span is None
        if span is None:
            return
        first, last = span
        if not 0 <= first < last:
            raise ValueError(f"profile={span} must be two numbers of steps, 0 <= first < last")
        if directory is None:
            raise ValueError(f"profile={span} needs a Trainer with a directory to write to")
        self._logs = tf.io.gfile.join(directory, "logs")
        self._begin, self._end = step + first, step + last
        # JAX writes what TensorFlow writes, into the same folder.
        if keras.backend.backend() == "jax":
            from jax import profiler

            self._start, self._finish = profiler.start_trace, profiler.stop_trace
            self._mark = lambda n: profiler.StepTraceAnnotation("train", step_num=n)
        else:
            profiler = tf.profiler.experimental
            self._start, self._finish = profiler.start, profiler.stop
            self._mark = lambda n: profiler.Trace("train", step_num=n, _r=1)

    @contextlib.contextmanager
    def of(self, step: int, end: int) -> Iterator[None]:
        """Profile, if it is due, the call in this block, which goes from `step` to `end`."""
        if self._done or (not self._running and step < self._begin):
            yield
            return
        if not self._running:
            self._start(self._logs)
            self._running = True
        with self._mark(step):
            yield
        if end >= self._end:
            self._stop()

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._running:
            self._stop()
        elif kind is None and not self._done:
            warnings.warn(
                f"profile={self._span}: the run ended before step {self._begin}, so nothing was "
                "profiled",
                stacklevel=3,
            )

    def _stop(self) -> None:
        self._finish()
        self._running, self._done = False, True
