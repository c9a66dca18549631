"""Damaged files of every format that is read: what their readers do with them.

    python -m benchmarks.damaged_files --count 10000             # a table, in Markdown
    python -m benchmarks.damaged_files --format "npz" --file 17  # one file alone, with its error

File n of a format is damaged with the seed (format, n), so that each can be made again. Readers run
in processes of their own, each with `MEMORY` more address space than it starts with. A process that
ends or takes more than `SECONDS` for a file is counted and replaced.

Allowed are a file that is read and holds finite numbers only, and the documented errors: a
ValueError or an OSError of one line that names the file.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import multiprocessing
import os
import pathlib
import random
import resource
import shutil
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

MEMORY, SECONDS = 2 << 30, 60
_LONGEST = 3000  # characters of a message
_READ, _REFUSED, _OTHER, _INFINITE = "read", "refused", "other", "not finite"
_CRASH, _HANG = "crash", "hang"


@dataclasses.dataclass
class Result:
    """What became of the damaged files of a format.

    Attributes:
        name: of the format.
        ours: whether tfnlp's own code reads it, see `Format`.
        counts: outcome to files.
        errors: what is not allowed: "file N: ..." for each such file.
        seconds: the longest time for a file.
        memory: the largest resident memory of a process, in bytes.
    """

    name: str
    ours: bool
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    errors: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    memory: int = 0


def measure(name: str, count: int) -> Result:
    """Read `count` damaged files of a format."""
    from benchmarks.damaged_formats import formats

    result = Result(name, formats()[name].ours)
    first = 0
    while first < count:
        first = _one_process(result, first, count)
    return result


def _one_process(result: Result, first: int, count: int) -> int:
    """Read files from `first` on in one process; return the number of the next file to read."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.damaged_formats"])
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(result.name, first, count, theirs))
    process.start()
    theirs.close()
    number, started = first, False
    while number < count:
        # The first file waits for the imports.
        if not ours.poll(SECONDS if started else 600):
            process.kill()
            _note(result, number, _HANG, f"took more than {SECONDS} s")
            number += 1
            break
        try:
            found, why, seconds, memory = ours.recv()
        except EOFError:
            process.join()
            _note(result, number, _CRASH, f"ended the process with {process.exitcode}")
            number += 1
            break
        started = True
        _note(result, number, found, why)
        result.seconds = max(result.seconds, seconds)
        result.memory = max(result.memory, memory)
        number += 1
    process.join()
    return number


def _note(result: Result, number: int, found: str, why: str) -> None:
    result.counts[found] += 1
    if found not in (_READ, _REFUSED):
        result.errors.append(f"file {number}: {why}")


def _work(name: str, first: int, count: int, results: Connection) -> None:
    """Read files and send the outcome of each."""
    from benchmarks.damaged_formats import formats

    form = formats()[name]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # TensorFlow's own messages
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    with tempfile.TemporaryDirectory() as folder:
        whole = _written(form, None, pathlib.Path(folder))
        if outcome(form, whole) != (_READ, ""):
            raise RuntimeError(f"{name}: the whole file is not read: {outcome(form, whole)}")
        for number in range(first, count):
            path = _written(form, number, pathlib.Path(folder))
            start = time.perf_counter()
            found, why = outcome(form, path)
            seconds = time.perf_counter() - start
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            results.send((found, why, seconds, memory))
            shutil.rmtree(path)


def _written(form: Any, number: int | None, folder: pathlib.Path) -> pathlib.Path:
    """Write the files of a format, file `number` damaged; None: all whole; return their folder."""
    draw = random.Random(f"{form.name} {number}")
    chosen = None if number is None else draw.choice(sorted(form.ways))
    for name, content in form.files.items():
        path = folder / str(number) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draw.choice(form.ways[name])(content, draw) if name == chosen else content)
    return folder / str(number)


def outcome(form: Any, folder: pathlib.Path) -> tuple[str, str]:
    """Read the files of a format; return what became of it, and why if that is not allowed."""
    try:
        for array in form.read(folder):
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return _INFINITE, "loads numbers that are not finite"
        return _READ, ""
    except (ValueError, OSError) as error:
        message = str(error)
        if "\n" in message or len(message) > _LONGEST or str(folder) not in message:
            return _OTHER, f"{type(error).__name__}: {message[:300]!r}"
        return _REFUSED, ""
    except Exception as error:
        return _OTHER, f"{type(error).__name__}: {str(error)[:300]!r}"


def table(results: list[Result]) -> str:
    """Return the results as a table in Markdown."""
    lines = [
        "| format | files | read | refused | other errors | crashes | hangs | not finite "
        "| longest | memory |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    names = (_READ, _REFUSED, _OTHER, _CRASH, _HANG, _INFINITE)
    for result in results:
        counts = " | ".join(f"{result.counts[name]:,}" for name in names)
        lines.append(
            f"| {result.name} | {result.counts.total():,} | {counts} | {result.seconds:.2f} s "
            f"| {result.memory / 1e6:,.0f} MB |"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and on stderr what is not allowed; return 1 if there is any of it."""
    from benchmarks.damaged_formats import formats

    parser = argparse.ArgumentParser(
        prog="damaged_files", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000, help="files a format")
    parser.add_argument("--format", nargs="*", default=list(formats()), help="default: all")
    parser.add_argument("--jobs", type=int, default=1, help="formats at a time")
    parser.add_argument("--file", type=int, help="read this file of one format alone")
    options = parser.parse_args(arguments)
    if options.file is not None:
        form = formats()[options.format[0]]
        with tempfile.TemporaryDirectory() as folder:
            for array in form.read(_written(form, options.file, pathlib.Path(folder))):
                print(array.dtype, array.shape)
        return 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = []
        for result in pool.map(lambda name: measure(name, options.count), options.format):
            results.append(result)
            print(f"{result.name}: {dict(result.counts)}", file=sys.stderr, flush=True)
            for error in result.errors[:20]:
                print(f"  {error}", file=sys.stderr, flush=True)
    print(table(results), flush=True)
    return int(any(result.errors for result in results if result.ours))


if __name__ == "__main__":
    sys.exit(main())
