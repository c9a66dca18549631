"""Does a long training stay within its memory, its open files and its disk?

    python -m benchmarks.endurance [--minutes 60] [--every 300]

Trains a small BERT on a book that ships with tfnlp, with `tfnlp pretrain` in a process of its own:
dropout, held-out evaluation, checkpoints and TensorBoard's logs every `--every` steps, a progress
bar, a history. Every ten seconds it looks from outside (Linux: /proc) at the memory of the process,
its open files and threads, and at the files of the run's folder, and prints a row every five
minutes. After `--minutes` it interrupts the training as Ctrl-C would.

The exit code is 1 if one of these does not hold, leaving out the first sixth of the time:

- the memory that is not a file's (RssAnon) grows by less than 20 MB an hour: the median of the
  slopes between all samples that are half the time apart;
- as many files are open, and as many threads run, in the last third as in the first;
- the folder never holds more than `--keep` checkpoints, and one while it replaces the oldest.
"""

import argparse
import dataclasses
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

MB = 2**20
LIMIT = 20.0  # MB an hour
SECONDS = 10.0  # between two samples
ROW = 300.0  # seconds between two rows of the table


@dataclasses.dataclass(frozen=True)
class Sample:
    """What is seen of the process and of its folder at one time."""

    seconds: float
    step: int
    anonymous: int  # bytes
    resident: int  # bytes
    handles: int
    threads: int
    checkpoints: int
    files: int
    checkpoint_bytes: int
    log_bytes: int

    def row(self) -> str:
        numbers = [self.anonymous, self.resident, self.checkpoint_bytes, self.log_bytes]
        anonymous, resident, checkpoints, logs = (number / MB for number in numbers)
        return (
            f"{self.seconds / 60:7.1f} {self.step:9,d} {anonymous:9.1f} {resident:9.1f} "
            f"{self.handles:7d} {self.threads:7d} {self.checkpoints:11d} {checkpoints:9.1f} "
            f"{logs:7.2f} {self.files:5d}"
        )


HEAD = (
    "minutes      step   own MB   all MB   files threads checkpoints  their MB logs MB files of run"
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=int, default=300, help="steps between checkpoints")
    parser.add_argument("--keep", type=int, default=3, help="checkpoints to keep")
    parser.add_argument("--steps", type=int, default=400_000, help="more than the time allows")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        run, log = pathlib.Path(folder, "run"), pathlib.Path(folder, "log")
        with log.open("wb") as file:
            process = subprocess.Popen(command(run, arguments), stdout=file, stderr=file)
        try:
            samples = watch(process, run, arguments.minutes * 60)
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            code = process.wait(timeout=300)
        finally:
            process.kill()
            process.wait()
        found = problems(samples, arguments.keep)
        if code not in (0, 130):
            end = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            found.append(f"the training ended with exit code {code}: {end}")
    print("\n".join(f"endurance: {problem}" for problem in found) or "endurance: flat")
    return 1 if found else 0


def command(run: pathlib.Path, arguments: argparse.Namespace) -> list[str]:
    """Return the command line of the training."""
    options = {
        "input": "book:the_secret_garden", "output": run, "steps": arguments.steps,
        "num-layers": 2, "hidden-size": 64, "num-heads": 2, "intermediate-size": 128,
        "vocab-size": 2000, "seq-length": 64, "batch-size": 16, "evaluate-batches": 5,
        "evaluate-every": arguments.every, "checkpoint-every": arguments.every,
        "keep": arguments.keep,
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "tfnlp", "pretrain", "bert", *words]


def watch(process: subprocess.Popen, run: pathlib.Path, seconds: float) -> list[Sample]:
    """Return the samples of so many seconds, from the first checkpoint on; print rows of them."""
    while process.poll() is None and not list(run.glob("checkpoints/step-*")):
        time.sleep(0.1)
    start, samples = time.monotonic(), []
    print(HEAD, flush=True)
    while process.poll() is None and time.monotonic() - start < seconds + SECONDS:
        try:
            samples.append(sample(process.pid, run, time.monotonic() - start))
        except (OSError, KeyError):  # a checkpoint was replaced, or the process ended, meanwhile
            continue
        if len(samples) == 1 or samples[-1].seconds // ROW > samples[-2].seconds // ROW:
            print(samples[-1].row(), flush=True)
        time.sleep(max(0.0, start + len(samples) * SECONDS - time.monotonic()))
    return samples


def sample(process: int, run: pathlib.Path, seconds: float) -> Sample:
    """Look at the process and at its folder."""
    proc = pathlib.Path("/proc", str(process))
    lines = (line.split() for line in (proc / "status").read_text().splitlines())
    status = {words[0]: words[1] for words in lines if len(words) > 1}
    files = [path for path in run.rglob("*") if path.is_file()]
    sizes = {path.relative_to(run): path.stat().st_size for path in files}
    checkpoints = [path.name for path in run.glob("checkpoints/step-*")]
    return Sample(
        seconds,
        max((int(name.removeprefix("step-")) for name in checkpoints), default=0),
        int(status.get("RssAnon:", status["VmRSS:"])) * 1024,
        int(status["VmRSS:"]) * 1024,
        len(list((proc / "fd").iterdir())),
        int(status["Threads:"]),
        len(checkpoints),
        len(files),
        sum(size for path, size in sizes.items() if path.parts[0] == "checkpoints"),
        sum(size for path, size in sizes.items() if path.parts[0] == "logs"),
    )


def problems(samples: list[Sample], keep: int) -> list[str]:
    """Print what was measured; return what is not as it should be."""
    samples = samples[len(samples) // 6 :]
    third = len(samples) // 3
    if not third:
        return ["the training ended before there was anything to see"]
    found = []
    growth = slope(samples)
    print(f"memory of its own: {growth:+.1f} MB an hour (limit {LIMIT:.0f})")
    if growth > LIMIT:
        found.append(f"memory grows by {growth:.1f} MB an hour")
    for name in ("handles", "threads"):
        first, last = (
            statistics.median(getattr(each, name) for each in part)
            for part in (samples[:third], samples[-third:])
        )
        most = max(getattr(each, name) for each in samples)
        print(f"{name}: {first:.0f} in the first third, {last:.0f} in the last, at most {most}")
        if last > first:
            found.append(f"{name} grew from {first:.0f} to {last:.0f}")
    most = max(each.checkpoints for each in samples)
    size = max(each.checkpoint_bytes for each in samples) / MB
    steps = samples[-1].step - samples[0].step
    print(f"checkpoints: at most {most} at a time, {size:.1f} MB; {steps:,} steps")
    if most > keep + 1:
        found.append(f"{most} checkpoints are kept, not {keep}")
    return found


def slope(samples: list[Sample]) -> float:
    """Return the growth of the anonymous memory in MB an hour (Theil-Sen, without near pairs)."""
    apart = (samples[-1].seconds - samples[0].seconds) / 2
    slopes = [
        (b.anonymous - a.anonymous) / MB / ((b.seconds - a.seconds) / 3600)
        for a in samples
        for b in samples
        if b.seconds - a.seconds >= apart
    ]
    return statistics.median(slopes)


if __name__ == "__main__":
    sys.exit(main())
