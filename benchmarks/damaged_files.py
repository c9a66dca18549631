"""Damaged files of every format that is read: what their readers do with them.

    python -m benchmarks.damaged_files --count 10000             # a table, in Markdown
    python -m benchmarks.damaged_files --format "npz" --file 17  # one file alone, with its error

File n of a format (`tests/fuzz/formats.py`) is damaged with the seed (format, n), so that
each can be made again. Readers run in processes of their own, each with `MEMORY` more address space
than it starts with. A process that ends or takes more than `SECONDS` for a file is counted and
replaced.

Allowed are a file that is read and holds finite numbers only, and the documented errors: a
ValueError or an OSError of one line that names the file.
"""

import argparse
import collections
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

import numpy as np

MEMORY, SECONDS = 2 << 30, 60
_LONGEST = 3000  # characters of a message
_ALLOWED = ("read", "refused")
_OUTCOMES = (*_ALLOWED, "other errors", "crashes", "hangs", "not finite")


@dataclasses.dataclass
class Result:
    """What became of the damaged files of a format.

    Attributes:
        name: of the format.
        counts: outcome to files.
        errors: what is not allowed: "file N: ..." for each such file.
        seconds: the longest time for a file.
        memory: the largest resident memory of a process, in bytes.
    """

    name: str
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    errors: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    memory: int = 0

    def note(self, number, found, why, seconds=0.0, memory=0):
        self.counts[found] += 1
        if found not in _ALLOWED:
            self.errors.append(f"file {number}: {why}")
        self.seconds, self.memory = max(self.seconds, seconds), max(self.memory, memory)


def measure(name, count):
    """Read `count` damaged files of a format; return the `Result`."""
    result, number = Result(name), 0
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.fuzz.formats"])
    while number < count:
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(name, number, count, theirs))
        process.start()
        theirs.close()
        limit = 600  # the first file waits for the imports
        while number < count:
            try:
                if not ours.poll(limit):
                    process.kill()
                    result.note(number, "hangs", f"took more than {SECONDS} s")
                    break
                result.note(number, *ours.recv())
            except EOFError:
                process.join()
                result.note(number, "crashes", f"ended the process with {process.exitcode}")
                break
            number, limit = number + 1, SECONDS
        else:
            number -= 1
        process.join()
        number += 1
    return result


def _work(name, first, count, results):
    """Read files and send the outcome of each."""
    from tests.fuzz.formats import format_of

    form = format_of(name)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # TensorFlow's own messages
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    with tempfile.TemporaryDirectory() as folder:
        whole = outcome(form, written(form, None, pathlib.Path(folder)))
        if whole != ("read", ""):
            raise RuntimeError(f"{name}: the whole file is not read: {whole}")
        for number in range(first, count):
            path = written(form, number, pathlib.Path(folder))
            start = time.perf_counter()
            found = outcome(form, path)
            seconds = time.perf_counter() - start
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            results.send((*found, seconds, memory))
            shutil.rmtree(path)


def written(form, number, folder):
    """Write the files of a format, file `number` damaged; None: all whole; return their folder."""
    draw = random.Random(f"{form.name} {number}")
    chosen = None if number is None else draw.choice(sorted(form.ways))
    for name, content in form.files.items():
        path = folder / str(number) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draw.choice(form.ways[name])(content, draw) if name == chosen else content)
    return folder / str(number)


def outcome(form, folder):
    """Read the files of a format; return what became of it, and why if that is not allowed."""
    try:
        for array in form.read(folder):
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return "not finite", "loads numbers that are not finite"
        return "read", ""
    except (ValueError, OSError) as error:
        message = str(error)
        if "\n" not in message and len(message) <= _LONGEST and str(folder) in message:
            return "refused", ""
        return "other errors", f"{type(error).__name__}: {message[:300]!r}"
    except Exception as error:
        return "other errors", f"{type(error).__name__}: {str(error)[:300]!r}"


def row(result):
    """Return a line of the table."""
    counts = " | ".join(f"{result.counts[name]:,}" for name in _OUTCOMES)
    return (
        f"| {result.name} | {result.counts.total():,} | {counts} | {result.seconds:.2f} s "
        f"| {result.memory / 1e6:,.0f} MB |"
    )


def main():
    """Print the table, and on stderr what is not allowed; return 1 if our code does any of it."""
    from tests.fuzz.formats import NAMES, format_of

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=10_000, help="files a format")
    parser.add_argument("--format", nargs="*", default=NAMES, help="default: all")
    parser.add_argument("--file", type=int, help="read this file of one format alone")
    options = parser.parse_args()
    if options.file is not None:
        form = format_of(options.format[0])
        with tempfile.TemporaryDirectory() as folder:
            for array in form.read(written(form, options.file, pathlib.Path(folder))):
                print(array.dtype, array.shape)
        return 0
    print(f"| format | files | {' | '.join(_OUTCOMES)} | longest | memory |\n|{'---|' * 10}")
    failed = False
    for name in options.format:
        result = measure(name, options.count)
        print(row(result), flush=True)
        print(
            *(f"  {error}" for error in result.errors[:20]), sep="\n", file=sys.stderr, flush=True
        )
        failed = failed or bool(result.errors and "TensorFlow" not in name)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
