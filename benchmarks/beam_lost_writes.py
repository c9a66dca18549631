"""Shows that Beam loses data that is written while a buffer is flushed; needs apache-beam alone.

    pip install apache-beam
    python beam_lost_writes.py

`TimeBasedBufferingClosableOutputStream` (apache_beam/runners/worker/data_plane.py) has a thread
that flushes the buffer once a second. `flush` sends `self.get()` and then calls `self._clear()`.
`write` does not take the lock that `flush` holds: what another thread writes between the two calls
is neither sent nor kept. `_send_input_to_worker` of the FnApiRunner (the DirectRunner with
`direct_running_mode` multi_processing or multi_threading) has one such stream for all input of a
bundle. If sending takes more than a second, elements can be lost, and nothing reports it.

1. A flush during which another thread writes, in a fixed order: shows the loss every time.
2. A pipeline that counts 16 elements of 4 MB, with two workers behind gRPC. Buffers are flushed
   each millisecond instead of each second, so that a small pipeline shows what else a big one does.
   It depends on the timing of threads; by default it runs three times.

Exit status: 1 if data was lost, else 0. Until it is mended, set
`worker_handlers.DATA_BUFFER_TIME_LIMIT_MS` to 0: the writing thread then flushes by size.
"""

import argparse
import os
import sys
import tempfile
import threading

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.worker.data_plane import ClosableOutputStream


def stream_loses() -> bool:
    """Write two parts, the second one while the first is flushed; return whether one is lost."""
    sent, flushing, written = [], threading.Event(), threading.Event()

    def send(data: bytes) -> None:
        sent.append(data)
        if not flushing.is_set():
            flushing.set()
            written.wait()  # the other thread writes now

    stream = ClosableOutputStream.create(sent.append, send, data_buffer_time_limit_ms=1)
    stream.write(b"first ")
    flushing.wait()
    stream.write(b"second")
    written.set()
    stream.close()
    found = b"".join(sent)
    print(f"stream:   expected {b'first second'}, found {found}", flush=True)
    return found != b"first second"


def pipeline_loses(elements: int, size: int) -> bool:
    """Send elements through a pipeline with two workers; return whether some are lost."""
    options = PipelineOptions(["--direct_num_workers=2", "--direct_running_mode=multi_threading"])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "count")

        def write(count: int) -> None:
            with open(path, "w") as file:
                file.write(str(count))

        with beam.Pipeline(runner=fn_runner.FnApiRunner(), options=options) as pipeline:
            (
                pipeline
                | beam.Create(range(elements))
                | "make" >> beam.Map(lambda number: (number, bytes(size)))
                | beam.Reshuffle()
                | beam.combiners.Count.Globally()
                | "write" >> beam.Map(write)
            )
        with open(path) as file:
            found = int(file.read())
    print(f"pipeline: expected {elements} elements, found {found}", flush=True)
    return found != elements


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--elements", type=int, default=16)
    parser.add_argument("--size", type=int, default=4 << 20)
    arguments = parser.parse_args()
    print(f"apache-beam {beam.__version__}", flush=True)
    lost = [stream_loses()]
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 1
    for _ in range(arguments.times):
        lost.append(pipeline_loses(arguments.elements, arguments.size))
    sys.exit(any(lost))
