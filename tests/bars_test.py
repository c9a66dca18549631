"""Progress: on terminals of several widths, in a notebook, and in a file."""

import contextlib
import io
import os
import pty
import re
import struct
import termios
import time
from fcntl import ioctl

import pytest

from tfnlp import bars
from tfnlp.bars import ProgressBar
from tfnlp.training.monitor import Progress

FIGURES = {"loss": 1.2345, "tokens_per_second": 21345.0, "steps_per_second": 12.5}
HELD_OUT = {
    "loss": 3.81234,
    "masked_lm_accuracy": 0.13124,
    "next_sentence_accuracy": 0.75,
    "perplexity": 45.234,
    "f1/one": 0.5,  # of a single label
}


@contextlib.contextmanager
def terminal(columns):
    """Make standard error a terminal; yield a function that returns the lines that it got."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(slave, "w") as file, contextlib.redirect_stderr(file):

        def told():
            file.write("\0")  # what was written may come in pieces
            file.flush()
            got = b""
            while not got.endswith(b"\0"):
                got += os.read(master, 1 << 20)
            assert b"\x1b[?25" not in got  # a process that is killed leaves the cursor
            text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", got.decode()[:-1])
            return [line.rstrip() for line in re.split("[\r\n]+", text)]

        yield told
    os.close(master)


@pytest.fixture(autouse=True)
def no_dumb_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)


SHOWN = {
    40: "50%  loss 1.234",
    60: "loss 1.234  21.3k tokens/s  0:05 left",
    80: "1,500/3,000 steps  loss 1.234  21.3k tokens/s  0:05 left",
}


@pytest.mark.parametrize("columns", SHOWN)
def test_a_training_keeps_a_bar_and_the_figures_that_fit(columns, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with terminal(columns) as told, Progress(0, 3000) as progress:
        progress.bar._progress.get_time = progress.bar._state._get_time = lambda: now[0]
        for step in (500, 1000, 1500):
            now[0] += 1.6
            progress.update(step, FIGURES)
        progress.bar._progress.refresh()
        progress.note(1500, HELD_OUT)
        lines = told()
    assert max(map(len, lines)) <= columns
    line = next(line for line in lines if "loss 1.234" in line and "held" not in line)
    bar, _, beside = line.partition(" ")
    assert beside == SHOWN[columns] and 20 <= len(bar) <= 60 and bar.count("━") >= 19
    text = "\n".join(lines)
    assert re.search(r"step 1500 held out: loss 3.8123\s+masked words right 0.1312\s", text)


def test_a_file_gets_whole_lines(monkeypatch):
    file = io.StringIO()
    for _ in ProgressBar(range(100), file=file, desc="short"):
        pass
    (line,) = file.getvalue().splitlines()  # of short work
    assert line.startswith("short  100/100  ") and line.endswith("  in 0:00")
    file = io.StringIO()
    monkeypatch.setattr(bars, "_SECONDS", 0.0)
    with ProgressBar(total=3_000_000, file=file, desc="reading", unit="B", first=1) as bar:
        bar.update(1_499_999)
        assert bar.n == 1_500_000
        bar.write("a note")
        bar.update(1_500_000)
    lines = file.getvalue().split("\n")
    assert "\r" not in file.getvalue() and "\x1b" not in file.getvalue()
    assert lines[0].startswith("reading  1.50M/3.00M B") and lines[1] == "a note"
    assert lines[2].startswith("reading  3.00M/3.00M B") and lines[-1] == ""
    file = io.StringIO()
    with contextlib.redirect_stderr(file), Progress(0, 3000) as progress:
        progress.update(1500, {"loss": 1.2345, "steps_per_second": 12.5})
        progress.note(1500, HELD_OUT)
    assert "1,500/3,000 steps  loss 1.234  12.5 steps/s" in file.getvalue()
    assert "step 1500 held out: loss 3.8123  masked words right 0.1312" in file.getvalue()


def test_nothing_is_shown_of_a_disabled_or_an_inner_bar():
    with contextlib.redirect_stderr(io.StringIO()) as file, Progress(0, 3, False) as progress:
        progress.update(3, FIGURES)
        progress.note(3, HELD_OUT)
    assert file.getvalue() == ""
    with terminal(80) as told, ProgressBar(range(2), desc="outer"):
        for _ in ProgressBar(range(3), desc="inner"):
            pass
        assert "inner" not in "".join(told())
