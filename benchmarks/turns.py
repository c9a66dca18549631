"""Two trainings in processes of their own that take turns, so that both see the same machine.

The parent writes a line to a child's standard input, and the child makes some steps and answers
with a line of JSON. What a child prints otherwise goes to its standard error.
"""

import json
import os
import subprocess
import sys
import time


class Turns:
    """The child's side: stops the training after each turn until the parent says go.

    Args:
        steps: training steps of a turn.
    """

    def __init__(self, steps):
        self.steps, self.taken, self.examples = steps, 0, 0
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.wait()

    def wait(self):
        """Tells the parent that a turn is over, and waits for the next one."""
        if not sys.stdin.readline():
            sys.exit("the parent has ended")
        self._started = time.perf_counter(), time.process_time()

    def stepped(self, steps, examples):
        """To be called after training steps, with the number of their examples."""
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


class Child:
    """The parent's side of one process.

    Args:
        command: of the process.
        log: file for what it prints.
        cwd, env: as for `subprocess.Popen`.
    """

    def __init__(self, command, log, cwd, env):
        self.log = log
        with open(log, "a", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
                text=True, cwd=cwd, env=env,
            )  # fmt: skip
        self.turns, self.last = [], {}

    @property
    def done(self):
        """Whether it has answered with `done`."""
        return bool(self.last.get("done"))

    def turn(self):
        """Lets it work until its next answer.

        Raises:
            OSError: it has ended without one.
        """
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            lines = iter(self.process.stdout.readline, "")
            line = next((line for line in lines if line.startswith("{")), "")
        except BrokenPipeError:
            line = ""
        if not line:
            raise OSError(f"a training has failed, see {self.log}")
        self.last = json.loads(line)
        self.turns.append(self.last)

    def close(self):
        """Ends it."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def alternate(children):
    """Turns of all children until all are done, the order reversed each round."""
    rounds = 0
    try:
        while not all(child.done for child in children):
            for child in children if rounds % 2 == 0 else children[::-1]:
                if not child.done:
                    child.turn()
            rounds += 1
    finally:
        for child in children:
            child.close()


def rounds(ours, theirs):
    """Examples a second of both sides in each round of turns: a list of (ours, theirs).

    The first round, which traces and warms up, and those with less steps than the second are left
    out, unless there are no others.
    """
    found = [pair for pair in zip(ours, theirs, strict=False) if all(t["examples"] for t in pair)]
    most = max(turn["steps"] for pair in found[1:] or found for turn in pair)
    counted = [pair for pair in found[1:] if all(t["steps"] == most for t in pair)] or found[:1]
    return [tuple(t["examples"] / t["seconds"] for t in pair) for pair in counted]
