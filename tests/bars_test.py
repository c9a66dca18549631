"""Progress bars: on a terminal of 80 columns, and in a file."""

import contextlib
import io
import os
import pty
import re
import struct
import termios
from fcntl import ioctl

import pytest
from tqdm import auto, notebook

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
MEASURES = {
    "class_accuracy": (0.853, "acc .853"),
    "tag_accuracy": (1.0, "acc 1.000"),
    "score_pearson": (-0.5, "r -0.50"),
    "perplexity": (31.6, "ppl 31.6"),
}


@contextlib.contextmanager
def terminal():
    """Make standard error a terminal of 80 columns; yield a function that returns what it got."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with os.fdopen(slave, "w") as file, contextlib.redirect_stderr(file):

        def told():
            file.write("\0")  # what was written may come in pieces
            file.flush()
            got = b""
            while not got.endswith(b"\0"):
                got += os.read(master, 1 << 20)
            return got.decode()[:-1]

        yield told
    os.close(master)


def test_a_bar_of_training_keeps_what_matters_at_80_columns():
    with terminal() as told, Progress(0, 3000) as progress:
        progress.update(1500, FIGURES)
        progress.bar.refresh()
        progress.note(1500, FIGURES)
        lines = [line.rstrip() for line in re.split("[\\r\\n]+", told())]
    assert max(map(len, lines)) <= 80 and "\x1b[A" not in "".join(lines)
    (shown,) = {line for line in lines if "loss 1.23" in line and "held out" not in line}
    assert "1500/3000 [" in shown and "21.3k tok/s" in shown and "peak 41%" in shown
    assert "held out: loss 1.2345" in " ".join(lines)


@pytest.mark.parametrize("name", MEASURES)
def test_a_bar_of_training_has_the_measure_of_its_task(name):
    value, shown = MEASURES[name]
    figures = {n: x for n, x in FIGURES.items() if "accuracy" not in n}
    with terminal() as told, Progress(0, 1_234_567) as progress:
        progress.update(1_000_000, {**figures, name: value})
        progress.bar.refresh()
        lines = [line.rstrip() for line in re.split("[\\r\\n]+", told())]
    assert max(map(len, lines)) <= 80
    (line,) = {line for line in lines if "loss 1.23" in line}
    assert shown in line and "21.3k tok/s" in line


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


def test_a_notebook_gets_its_widget(monkeypatch):
    class Widget(notebook.tqdm, auto.tqdm):
        """tqdm's class for notebooks without what ipywidgets draws."""

        shown, colour = [], None

        def __init__(self, *args, **settings):
            super().__init__(*args, **settings, display=False)

        @staticmethod
        def status_printer(file, total=None, desc=None, ncols=None):
            assert ncols is None  # the page's width
            return type("Container", (), {})()

        def display(self, *args, **settings):
            self.shown.append(self.format_meter(**self.format_dict))

    monkeypatch.setattr(auto, "tqdm", Widget)
    file = io.StringIO()
    with contextlib.redirect_stderr(file), Progress(0, 3000) as progress:
        assert isinstance(progress.bar, Widget)
        progress.update(1500, FIGURES)
        progress.bar.refresh()
        progress.note(1500, {"accuracy": 0.5})
    assert file.getvalue() == "step 1500 held out: accuracy 0.5000\n"
    assert "1500/3000" in Widget.shown[-1]
    assert "loss 1.234, mlm .500, 21.3k tok/s" in Widget.shown[-1]


def test_a_notebook_without_widgets_gets_one_line():
    class Stream(io.StringIO):
        """What the kernel of a notebook has as standard error."""

    Stream.__module__ = "ipykernel.iostream"
    with contextlib.redirect_stderr(Stream()) as file, Progress(0, 300) as progress:
        for step in range(1, 301):
            progress.update(step, FIGURES)
            progress.bar.refresh()
    written = file.getvalue()
    assert written.count("\n") == 1 and written.endswith("\n")
    assert "\r100% 300/300" in written and max(map(len, written.split("\r"))) <= 81
