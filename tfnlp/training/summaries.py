"""Scalars for TensorBoard."""

import tensorflow as tf


class Summaries:
    """Event files under `directory/logs`; with `directory=None` nothing is written."""

    def __init__(self, directory):
        self._writer = None
        if directory is not None:
            self._writer = tf.summary.create_file_writer(tf.io.gfile.join(directory, "logs"))

    def write(self, group, step, logs):
        """One point of each curve in `logs`."""
        if self._writer is None:
            return
        with self._writer.as_default(step=step):
            for name, value in logs.items():
                tf.summary.scalar(f"{group}/{name}", value)
        self._writer.flush()
