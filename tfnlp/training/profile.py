"""A TensorFlow profile of a few steps: what ran when, operation by operation."""

import contextlib
import warnings

import tensorflow as tf


class Profile:
    """Profiles whole calls into TensorFlow, so that it changes nothing of what is computed.

    The profile lies under `directory/logs/plugins/profile`, where TensorBoard's Profile tab (the
    package tensorboard-plugin-profile) finds it. A call of several steps is one step there.

    Args:
        directory: the run's, or None.
        span: `(first, last)`: begin with the call in which so many steps of this start are made,
            end with the one in which so many are; None profiles nothing. The first call traces
            and compiles, so begin after it.
        step: where this start begins.

    Raises:
        ValueError: for a span that is none, or without a directory.
    """

    def __init__(self, directory, span, step):
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

    @contextlib.contextmanager
    def of(self, step, end):
        """To be open while a call runs that goes from `step` to `end`."""
        if self._done or (not self._running and step < self._begin):
            yield
            return
        if not self._running:
            tf.profiler.experimental.start(self._logs)
            self._running = True
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            yield
        if end >= self._end:
            self._stop()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self._running:
            self._stop()
        elif kind is None and not self._done:
            warnings.warn(
                f"profile={self._span}: the run ended before step {self._begin}, so nothing was "
                "profiled",
                stacklevel=3,
            )

    def _stop(self):
        tf.profiler.experimental.stop()
        self._running, self._done = False, True
