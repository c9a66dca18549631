"""Work in processes of its own that takes turns, so that all of it sees the same machine.

The parent writes a line to a child's standard input, and the child makes some steps and answers
with a line of JSON. What a child prints otherwise goes to its standard error.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[1]


class Turns:
    """The child's side: stops the work after each turn until the parent says go.

    Args:
        steps: training steps of a turn.
    """

    def __init__(self, steps=1):
        self.steps, self.taken, self.examples = steps, 0, 0
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.wait()

    def wait(self):
        """Waits for the next turn."""
        if not sys.stdin.readline():
            sys.exit("the parent has ended")
        self._started = time.perf_counter(), time.process_time()

    def stepped(self, steps, examples):
        """To be called after steps, with the number of their examples; may end a turn."""
        self.taken += steps
        self.examples += examples
        if self.taken >= self.steps:
            self.report()
            self.wait()

    def report(self, **more):
        """Ends a turn."""
        now = time.perf_counter(), time.process_time()
        seconds, cpu = (b - a for a, b in zip(self._started, now, strict=True))
        found = {"seconds": seconds, "cpu": cpu, "steps": self.taken, "examples": self.examples}
        print(json.dumps({**found, **more}), file=self._answers, flush=True)
        self.taken, self.examples = 0, 0


def take(rounds, work, examples):
    """The child's side: `work` in a turn that warms up and in as many as count.

    Args:
        rounds: turns that count.
        work: a function that returns a dict to report, or None.
        examples: of a turn.
    """
    each = Turns()
    for turn in range(rounds + 1):
        said = work()
        each.examples += examples
        each.report(**(said or {}), done=turn == rounds)
        if turn < rounds:
            each.wait()


class Child:
    """The parent's side of one process, `PYTHON -m benchmarks.MODULE JSON`.

    Args:
        module: of `benchmarks`.
        told: what it is told, for JSON.
        log: file for what it prints.
        python: its interpreter.
        environment: more of its environment.
    """

    def __init__(self, module, told, log, python=sys.executable, **environment):
        self.log, self.turns = log, []
        command = [python, "-m", f"benchmarks.{module}", json.dumps(told)]
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
        with open(log, "a", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True,
                cwd=ROOT, env={**os.environ, **quiet, **environment},
            )  # fmt: skip

    @property
    def last(self):
        """Its last answer."""
        return self.turns[-1] if self.turns else {}

    def turn(self):
        """Lets it work until its next answer."""
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            lines = iter(self.process.stdout.readline, "")
            self.turns.append(json.loads(next(line for line in lines if line.startswith("{"))))
        except (BrokenPipeError, StopIteration):
            raise OSError(f"a process has failed, see {self.log}") from None

    def close(self):
        """Ends it."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def hugging_face(python, case, clip_norm=1.0):
    """Processes that take a step of transformers a turn, compiled and not, by name."""
    return {
        f"Hugging Face {mode}": Child(
            "hugging_face",
            {**case, "compiled": mode == "compiled", "clip_norm": clip_norm},
            os.devnull,
            python,
        )
        for mode in ("plain", "compiled")
    }


def alternate(children):
    """Turns of all children until all have answered with `done`, the order reversed each round."""
    order = list(children)
    try:
        while not all(child.last.get("done") for child in order):
            for child in order:
                if not child.last.get("done"):
                    child.turn()
            order.reverse()
    finally:
        for child in children:
            child.close()


def rates(turns, clock="seconds"):
    """Examples a second of each turn."""
    return [turn["examples"] / turn[clock] for turn in turns]


def spread(ours, theirs):
    """The median and the range of the ratios of turns that followed each other."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
