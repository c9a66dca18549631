"""What is left of commands that are killed at random moments, and given again?

    python -m benchmarks.kills [--count 200] [--seed 0] [--only pretrain_bert vocab ...]

For each kind of work (`benchmarks.kills_work`) a command of a few seconds ends once without being
killed; the time it takes and the files that it writes are what the others are compared with. Then,
kind after kind: the command starts in an empty folder and it, and all that it has started, is
killed (SIGKILL) at a random moment of that time; the same command is given again, and killed again
with probability 0.65, until it has come to its end. What it left must then be the same files, byte
for byte, and no others. TensorBoard's logs are left out, and the random number in a SavedModel's
`fingerprint.pb`. If the command refuses to go on, its message must name the way on (an option to
add, or what to delete); the script goes that way.

Each command is a process of its own, forked from this one, which has imported what the commands
need and has done nothing with it: imports take seconds in which there is nothing to lose. The exit
code is 1 if something else was left, or a refusal named no way.
"""

import argparse
import collections
import contextlib
import importlib
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

from benchmarks.kills_work import WORKS, differences, write_texts

FORK = multiprocessing.get_context("fork")
AGAIN = 0.65  # probability that the command is killed once more
LIMIT = 600.0  # seconds that a command may take: it hangs after them
MODULES = "hub layers models runs.finetuning runs.pretraining tasks text training".split()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="kills")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--only", nargs="+", default=list(WORKS), choices=WORKS, metavar="KIND")
    arguments = parser.parse_args(argv)
    for name in MODULES:
        importlib.import_module(f"tfnlp.{name}")
    if "examples" in arguments.only:
        importlib.import_module("apache_beam")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(pathlib.Path(folder), random.Random(arguments.seed))
        for name in arguments.only:
            bench.reference(name)
        kills = {name: 0 for name in arguments.only}
        while (left := arguments.count - sum(kills.values())) > 0:
            name = min(kills, key=kills.get)
            kills[name] += bench.trial(name, left)
        print(f"\n{bench.table()}\n\n{time.monotonic() - start:,.0f} s", flush=True)
        return 1 if any(counts["wrong"] for counts in bench.counts.values()) else 0


class Bench:
    """The commands and what became of them.

    Args:
        folder: where everything is written.
        random: of the moments.

    Attributes:
        counts: by kind: "kills", "ends", "identical", "refused" (and then identical), "wrong",
            and "seconds" of all starts.
        seconds: by kind: how long the command takes.
    """

    def __init__(self, folder: pathlib.Path, random: random.Random) -> None:
        self.folder, self.random = folder, random
        self.counts = collections.defaultdict(collections.Counter)
        self.seconds: dict[str, float] = {}
        self._texts = write_texts(folder)
        self._trials = 0

    def reference(self, name: str) -> None:
        """Do a work, and those it needs, without a kill."""
        if name in self.seconds:
            return
        if WORKS[name].needs:
            self.reference(WORKS[name].needs)
        start = time.monotonic()
        code, said = self.start(name, self.folder / name)
        if code:
            raise SystemExit(f"kills: {name} ends with exit code {code} without a kill: {said}")
        self.seconds[name] = time.monotonic() - start
        print(f"{name}: {self.seconds[name]:.1f} s", flush=True)

    def trial(self, name: str, most: int) -> int:
        """Kill a command `most` times at most, and let it end; return the number of kills."""
        self._trials += 1
        folder, kills = self.folder / f"{name}-{self._trials}", 0
        start, code, refusals, more = time.monotonic(), None, [], []
        while code is None:
            moment = None
            if kills < most and not refusals and (kills == 0 or self.random.random() < AGAIN):
                moment = self.random.uniform(0, self.seconds[name])
            code, said = self.start(name, folder, moment, more)
            if code is None:
                kills += 1
            elif code and len(refusals) < 2 and (more := way_on(said, folder)) is not None:
                refusals.append(said)
                code = None
        seconds = time.monotonic() - start
        if not kills:  # the machine has less to do than it had
            self.seconds[name] = min(self.seconds[name], seconds)
        found = [f"exit code {code}: {said}"] if code else differences(self.folder / name, folder)
        self._note(name, kills, seconds, refusals, found)
        shutil.rmtree(folder)
        shutil.rmtree(f"{folder}.cache", ignore_errors=True)
        return kills

    def start(
        self, name: str, folder: pathlib.Path, moment: float | None = None, more: list[str] = ()
    ) -> tuple[int | None, str]:
        """Run a command in a process of its own.

        Args:
            name: the kind of work.
            folder: the folder it runs in.
            moment: seconds after which it is killed; None: it is not.
            more: arguments to add.

        Returns:
            its exit code, or None if it was killed, and the last line that it printed.
        """
        folder.mkdir(exist_ok=True)
        log = self.folder / "log"
        process = FORK.Process(target=_run, args=([*self._arguments(name), *more], folder, log))
        process.start()
        process.join(LIMIT if moment is None else moment)
        killed = process.exitcode is None
        if killed:
            with contextlib.suppress(ProcessLookupError):  # it may have no group of its own yet
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()
        said = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-1]
        if killed and moment is None:
            return 124, f"no end after {LIMIT:.0f} s"
        return (None if killed else process.exitcode), said

    def _arguments(self, name: str) -> list[str]:
        """Return the command line of a work."""
        found = []
        for argument in WORKS[name].arguments:
            argument = self._texts.get(argument, argument)
            if WORKS[name].needs:
                argument = argument.replace(
                    f"<{WORKS[name].needs}>", str(self.folder / WORKS[name].needs)
                )
            found.append(argument)
        return found

    def _note(
        self, name: str, kills: int, seconds: float, refusals: list[str], found: list[str]
    ) -> None:
        counts = self.counts[name]
        end = "wrong" if found else "refused" if refusals else "identical"
        counts.update({"kills": kills, "ends": 1, end: 1, "seconds": seconds})
        print(f"{name}: {kills} kills, {end}, {seconds:.0f} s", flush=True)
        for line in [*(f"refused: {refusal}" for refusal in refusals), *found]:
            print(f"    {line}", flush=True)

    def table(self) -> str:
        """Return a row for each kind, and their sum, as Markdown."""
        names = ("kills", "ends", "identical", "refused", "wrong")
        lines = [
            "| work | kills | ends | bit-identical | refused, with a way on | wrong | seconds |",
            f"|---|{'---:|' * 6}",
        ]
        total = sum(self.counts.values(), collections.Counter())
        for name, counts in [*self.counts.items(), ("all", total)]:
            cells = [str(counts[key]) for key in names] + [f"{counts['seconds']:,.0f}"]
            lines.append(f"| {name.replace('_', ' ')} | {' | '.join(cells)} |")
        return "\n".join(lines)


def _run(arguments: list[str], folder: pathlib.Path, log: pathlib.Path) -> None:
    """Run `tfnlp ARGUMENTS` in a folder, in a process and a group of its own."""
    from tfnlp import cli

    os.setsid()
    os.chdir(folder)
    os.environ["TFNLP_CACHE"] = f"{folder}.cache"  # tokenized texts, which other runs would read
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.exit(cli.main(cli.parse(["tfnlp", *arguments])))


def way_on(said: str, folder: pathlib.Path) -> list[str] | None:
    """Return the arguments to add as a refusal says; None if it says no way that is known.

    What it says should be deleted is deleted.
    """
    if not said.startswith("tfnlp: error: "):
        return None
    for option in ("--overwrite", "--restart"):
        if option in said:
            return [option]
    match = re.search(r"delete (\S+?)[,;.]?(\s|$)", said)
    if match and (folder / match[1]).exists():
        path = folder / match[1]
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return []
    return None


if __name__ == "__main__":
    sys.exit(main())
