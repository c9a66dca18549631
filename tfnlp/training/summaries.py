"""Scalars for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf


class Summaries:
    """Event files under `directory/logs`; none for `directory=None`."""

    def __init__(self, directory: str | None) -> None:
        self._writer = None
        if directory is not None:
            self._writer = tf.summary.create_file_writer(tf.io.gfile.join(directory, "logs"))

    def write(self, group: str, step: int, logs: Mapping[str, float]) -> None:
        """Write one point of each curve in `logs`."""
        if self._writer is None:
            return
        with self._writer.as_default(step=step):
            for name, value in logs.items():
                tf.summary.scalar(f"{group}/{name}", value)
        self._writer.flush()
