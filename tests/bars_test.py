"""Progress bars: on a terminal of 80 columns, and in a file."""

import contextlib
import io
import os
import pty
import re
import struct
import termios
from fcntl import ioctl

from tfnlp.bars import progress_bar
from tfnlp.training.progress import Progress

FIGURES = {
    "loss": 1.2345,
    "masked_lm_accuracy": 0.5,
    "next_sentence_accuracy": 0.75,
    "tokens_per_second": 21300.0,
    "steps_per_second": 12.5,
    "share_of_peak": 0.41,
    "input_wait": 0.02,
    "learning_rate": 4.1e-4,
    "gradient_norm": 0.83,
    "memory_gb": 1.2,
}


@contextlib.contextmanager
def terminal():
    """Make standard error a terminal of 80 columns; yield a function that returns what it got."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.set_blocking(master, False)
    with os.fdopen(slave, "w") as file, contextlib.redirect_stderr(file):

        def told():
            file.flush()
            return os.read(master, 1 << 20).decode()

        yield told
    os.close(master)


def test_a_bar_of_training_keeps_what_matters_at_80_columns():
    with terminal() as told, Progress(0, 3000) as progress:
        progress.update(1500, FIGURES)
        progress.bar.refresh()
        progress.note(1500, FIGURES)
        lines = re.split("[\\r\\n]+", told())
    assert max(map(len, lines)) <= 80 and "\x1b[A" not in "".join(lines)
    (shown,) = {line for line in lines if "loss 1.23" in line and "held out" not in line}
    assert "1500/3000 [" in shown and "21.3k tok/s" in shown and "peak 41%" in shown
    assert "held out: loss 1.2345" in " ".join(lines)


def test_a_file_gets_whole_lines():
    file = io.StringIO()
    for _ in progress_bar(range(100), file=file, desc="short"):
        pass
    first, last = file.getvalue().splitlines()  # of short work
    assert "0/100" in first and "100/100" in last
    file = io.StringIO()
    with progress_bar(total=3, file=file, desc="reading", mininterval=0) as bar:
        for _ in range(3):
            bar.update()
        bar.clear()
    lines = file.getvalue().split("\n")
    assert "\r" not in file.getvalue() and "" not in lines[:-1] and lines[-1] == ""
    assert all(line.startswith("reading: ") and len(line) <= 80 for line in lines[:-1])
    assert "3/3" in lines[-2] and len(set(lines)) == len(lines)


def test_a_terminal_gets_a_bar():
    with terminal() as told:
        for _ in progress_bar(range(3), desc="reading"):
            pass
        assert "\rreading: 100%" in told()
