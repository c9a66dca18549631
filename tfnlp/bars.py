"""Progress: a bar on a terminal or in a notebook, elsewhere plain lines at intervals."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from rich.console import Console
from rich.progress import Progress, Task
from rich.progress_bar import ProgressBar as Drawing
from rich.table import Table

_SECONDS = 10.0  # between two lines in a file
_LEAST, _MOST = 20, 60  # columns of a bar
_COLUMNS = 80  # of what does not say how many it has
_PERIOD = 600.0  # seconds over which the speed is averaged


class ProgressBar:
    """Shows how far work has come, on one line that also tells the speed and the time left.

    A bar on a terminal, and in a notebook with ipywidgets; into all else, such as a file, it
    writes whole lines at intervals. What a narrow terminal has no room for is left out, never the
    bar. Use it as a context and tell it what is done by `update`, or iterate over it.

    Args:
        items: what to iterate over; None: `update` is called.
        total: how much there is to do; None: the length of `items`, if it has one.
        desc: what is done, for the beginning of the line.
        unit: what is counted, in the plural; "B" for bytes.
        first: how much was done before.
        disable: show nothing.
        file: standard error unless given.

    Attributes:
        figures: texts to show in place of the speed, the most important one first.
    """

    _on_screen: ProgressBar | None = None  # one at a time: an inner one is not shown

    def __init__(
        self,
        items: Iterable[Any] | None = None,
        *,
        total: int | None = None,
        desc: str = "",
        unit: str = "",
        first: int = 0,
        disable: bool = False,
        file: IO[str] | None = None,
    ) -> None:
        if total is None and hasattr(items, "__len__"):
            total = len(items)
        self._items, self._unit, self._desc = items, unit.strip(), desc
        self._file, self._disabled = file or sys.stderr, disable
        self.figures: Sequence[str] = ()
        # What rich puts in place of standard error beneath a bar; before rich 14 it is no screen.
        screen = getattr(self._file, "rich_proxied_file", self._file)
        in_notebook = _shows_widgets(screen)
        self._live = not disable and (in_notebook or _is_screen(screen))
        is_stderr = self._file is sys.stderr
        self._progress = _OneLine(
            self,
            console=_WithCursor(
                file=self._file,
                force_terminal=self._live,
                force_jupyter=in_notebook,
                highlight=False,
                markup=False,
            ),
            speed_estimate_period=_PERIOD,
            refresh_per_second=4,
            disable=not self._live,
            # What else is printed to the same screen then stands above the bar.
            redirect_stderr=is_stderr,
            redirect_stdout=is_stderr and sys.stdout.isatty(),
        )
        self._task = self._progress.add_task(desc, total=total, completed=first)
        self._first, self._printed = first, time.monotonic()

    @property
    def n(self) -> int:
        """How much is done."""
        return int(self._state.completed)

    @property
    def columns(self) -> int | None:
        """Columns of the terminal or notebook; None for a file."""
        if not self._live:
            return None
        # rich asks standard error and output, which need not be the terminal of `file`.
        try:
            return os.get_terminal_size(self._file.fileno()).columns or _COLUMNS
        except (OSError, ValueError):  # a notebook's
            return _COLUMNS

    @property
    def _state(self) -> Task:
        return self._progress.tasks[0]

    def update(self, count: int = 1) -> None:
        """Say that so much more is done."""
        self._progress.update(self._task, advance=count)
        if not self._live and time.monotonic() - self._printed >= _SECONDS:
            self._print_state()

    def write(self, text: str) -> None:
        """Print lines, above the bar if there is one."""
        if self._live:
            (self._on_screen or self)._progress.console.print(text, soft_wrap=True)
        elif not self._disabled:
            self._file.write(f"{text}\n")
            self._file.flush()

    def __enter__(self) -> ProgressBar:
        if ProgressBar._on_screen is None and self._live:
            ProgressBar._on_screen = self
            self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop_task(self._task)
        if ProgressBar._on_screen is self:
            self._progress.stop()
            ProgressBar._on_screen = None
        if not self._live and self.n > self._first:
            self._print_state()

    def __iter__(self) -> Iterator[Any]:
        with self:
            for item in self._items:
                yield item
                self.update()

    def _print_state(self) -> None:
        self._printed = time.monotonic()
        self.write("  ".join(text for text in (self._desc, self._beside(1000)) if text))

    def rendered(self, columns: int) -> Table:
        """Return the line for a terminal of so many columns."""
        state, left = self._state, columns - _LEAST
        desc = self._desc if len(self._desc) < left else ""
        beside = self._beside(left - (len(desc) + 1 if desc else 0) + 1)
        width = columns - sum(len(text) + 1 for text in (desc, beside) if text)
        bar = Drawing(
            state.total, state.completed, min(max(width, _LEAST), _MOST), pulse=state.total is None
        )
        line = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
        line.add_row(*([desc] if desc else []), bar, beside)
        return line

    def _beside(self, columns: int) -> str:
        """Return what fits beside the bar: how much is done, figures, the time left.

        Each text counts with two columns before it.
        """
        figures = list(self.figures) or [self._speed()]
        # (place on the line, texts from long to short), the most important one first
        parts = [
            (1, [figures[0]]),
            (9, [self._time()]),
            *((2 + i, [text]) for i, text in enumerate(figures[1:])),
            (0, self._counts()),
        ]
        kept = {}
        for place, texts in parts:
            for text in texts:
                if text and len(text) + 2 <= columns:
                    kept[place] = text
                    columns -= len(text) + 2
                    break
        return "  ".join(kept[place] for place in sorted(kept))

    def _counts(self) -> list[str]:
        state, form = self._state, short if self._unit == "B" else "{:,}".format
        count = form(self.n)
        if state.total is not None:
            count = f"{count}/{form(int(state.total))}"
        whole = f"{count} {self._unit}".strip()
        return [whole, count, f"{state.percentage:.0f}%" if state.total else ""]

    def _speed(self) -> str:
        speed = self._state.speed
        return f"{short(speed)}{' ' if self._unit else ''}{self._unit}/s" if speed else ""

    def _time(self) -> str:
        state = self._state
        if state.stop_time is not None:
            return f"in {_clock(state.elapsed or 0)}"
        return "" if state.time_remaining is None else f"{_clock(state.time_remaining)} left"


class _OneLine(Progress):
    """rich's clock and display, with a line of our own."""

    def __init__(self, bar: ProgressBar, **settings: Any) -> None:
        self._bar = bar
        super().__init__(**settings)

    def get_renderables(self) -> Iterator[Table]:
        if self.tasks:
            self.console.width = self._bar.columns or _COLUMNS
            yield self._bar.rendered(self.console.width)


class _WithCursor(Console):
    """A console that never hides the cursor: a process that is killed can't show it again."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


def _is_screen(file: IO[str]) -> bool:
    return file.isatty() and not Console(file=file, force_terminal=True).is_dumb_terminal


def _shows_widgets(file: IO[str]) -> bool:
    """Return whether a stream is shown beneath a cell, in a notebook that has widgets."""
    is_cell = type(file).__module__.startswith("ipykernel.")
    return is_cell and importlib.util.find_spec("ipywidgets") is not None


def short(x: float) -> str:
    """Return three digits: 0.83, 950, 21.3k, 1.24M."""
    size, unit = next((s, u) for s, u in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (0, "")) if x >= s)
    x /= size or 1
    digits = 0 if x >= 100 or (x == int(x) and not unit) else 1 if x >= 10 else 2
    return f"{x:.{digits}f}{unit}"


def _clock(seconds: float) -> str:
    """Return 0:28, 1:53 or 13:53:20."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
