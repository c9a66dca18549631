"""Runs a Beam pipeline quietly, with a progress bar and one-line errors."""

import contextlib
import json
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import apache_beam as beam
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle

from tfnlp.bars import ProgressBar
from tfnlp.data.shards.folder import FAULT, WORK, Folder

_WATCH = 1.0  # seconds between updates of the progress bar


class Runner:
    """Runs pipelines with a runner of Beam.

    "DirectRunner" works on this machine, with so many worker processes. `options` are further ones
    of the pipeline, as on its command line.
    """

    def __init__(self, name: str, workers: int, options: list[str]) -> None:
        self.is_direct = name == "DirectRunner"
        self.workers = workers
        # Log lines of the workers mean nothing to the user.
        options = ["--default_sdk_harness_log_level=ERROR", *options]
        if self.is_direct:
            mode = "multi_processing" if workers > 1 else "in_memory"
            options += [f"--direct_num_workers={workers}", f"--direct_running_mode={mode}"]
        self.options, self.name = options, name

    def run(
        self, build: Callable[[beam.Pipeline], Any], folder: Folder, progress: "Progress"
    ) -> None:
        """Run the pipeline that `build(pipeline)` makes."""
        folder.remove(FAULT)
        options = PipelineOptions(self.options)
        with self._silence() as screen, progress.shown_on(screen), whole_buffers():
            pipeline = beam.Pipeline(runner=self._runner(options), options=options)
            build(pipeline)
            try:
                result = pipeline.run()
                try:
                    result.wait_until_finish()
                finally:
                    if hasattr(result, "client"):  # the Dask runner leaves it connected
                        result.client.close()
            except Exception as error:
                raise _fault(folder, error) from error

    def _runner(self, options: PipelineOptions) -> Any:
        if not self.is_direct:
            return self.name
        # By its class, because for its name Beam first tries to download and start another runner.
        encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
        provision = beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
        return fn_runner.FnApiRunner(provision_info=fn_runner.ExtendedProvisionInfo(provision))

    @contextlib.contextmanager
    def _silence(self) -> Iterator[TextIO]:
        """Hide what worker processes print when they start and end; yield the real stderr."""
        if not self.is_direct or self.workers == 1:
            yield sys.stderr
            return
        sys.stderr.flush()
        kept = os.dup(2)
        with os.fdopen(os.dup(2), "w") as screen, tempfile.TemporaryFile() as elsewhere:
            os.dup2(elsewhere.fileno(), 2)
            try:
                yield screen
            finally:
                os.dup2(kept, 2)
                os.close(kept)


@contextlib.contextmanager
def whole_buffers() -> Iterator[None]:
    """Work around a race of the DirectRunner that loses data, while open.

    By default (apache-beam 2.77) a second thread sends the written data to the worker processes
    every second; data that is written at that moment is lost: some chunks of 10 MB in big runs.
    """
    seconds = worker_handlers.DATA_BUFFER_TIME_LIMIT_MS
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
    try:
        yield
    finally:
        worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = seconds


def _fault(folder: Folder, error: Exception) -> Exception:
    """Return the error to raise for one that a runner raised."""
    if FAULT.rpartition("/")[2] in folder.names(WORK):
        with tf.io.gfile.GFile(folder.path(FAULT), "r") as file:
            fault = json.load(file)
        return {"ValueError": ValueError, "OSError": OSError}[fault["kind"]](fault["message"])
    if isinstance(error, (ValueError, OSError)):
        return error
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    return OSError(f"the pipeline failed: {lines[-1]}")


class Progress:
    """A progress bar that counts the notes of finished files whose names begin with `prefix`.

    `total` is their number at the end.
    """

    def __init__(
        self, folder: Folder, title: str, prefix: str | tuple, total: int | None = None
    ) -> None:
        self.folder, self.title, self.prefix, self.total = folder, title, prefix, total

    @contextlib.contextmanager
    def shown_on(self, screen: TextIO) -> Iterator[None]:
        """Show the bar on `screen` while open."""
        stop = threading.Event()
        with ProgressBar(desc=self.title, total=self.total, file=screen) as bar:

            def look() -> None:
                names = self.folder.names(WORK)
                done = sum(n.startswith(self.prefix) and n.endswith(".json") for n in names)
                bar.update(done - bar.n)

            def watch() -> None:
                while not stop.wait(_WATCH):
                    look()

            thread = threading.Thread(target=watch, daemon=True)
            thread.start()
            try:
                yield
            finally:
                stop.set()
                thread.join()
                look()
