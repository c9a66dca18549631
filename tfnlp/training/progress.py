"""The display of a training: steps, loss, speed and time left, and what is measured between."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from tfnlp.bars import ProgressBar, short
from tfnlp.objectives.measure_names import in_words

_NARROWEST = 7  # columns of a measure, whose numbers may grow


class Progress:
    """A display on stderr of the steps from `first` to `total`; without `enabled` of nothing."""

    def __init__(self, first: int, total: int, enabled: bool = True) -> None:
        self.bar = ProgressBar(first=first, total=total, unit="steps", disable=not enabled)
        self._widths: dict[str, int] = {}  # of the columns whose names have been shown

    def update(self, step: int, figures: Mapping[str, float]) -> None:
        """Move the bar to `step`; `figures` are floats by name, such as `loss`."""
        loss = [f"loss {figures['loss']:.3f}"] if "loss" in figures else []
        self.bar.figures = [*loss, _speed(figures)]
        self.bar.update(step - self.bar.n)

    def note(self, step: int, logs: Mapping[str, float]) -> None:
        """Print held-out values: on a screen a row of a table, in a file a line."""
        values = {in_words(name): figure(x) for name, x in logs.items() if "/" not in name}
        if not values:
            return
        columns = self.bar.columns
        widths = _widths(values) if columns is not None else {}
        if columns is None or 10 + sum(w + 2 for w in widths.values()) > columns:
            texts = [f"{name} {value}" for name, value in values.items()]
            self.bar.write(wrapped(f"step {step} held out: ", texts, columns))
            return
        if widths != self._widths:
            self._widths = widths
            self.bar.write(_header(widths))
        cells = [f"{value:>{widths[name]}}" for name, value in values.items()]
        self.bar.write("  ".join([f"{step:>10}", *cells]))

    def __enter__(self) -> Progress:
        self.bar.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.__exit__(*exception)


def _speed(figures: Mapping[str, float]) -> str:
    for name in ("tokens", "steps"):
        if f"{name}_per_second" in figures:
            return f"{short(figures[f'{name}_per_second'])} {name}/s"
    return ""


def _widths(names: Mapping[str, str]) -> dict[str, int]:
    """Return the width of each column: that of the longest word of its name."""
    return {name: max(_NARROWEST, *map(len, name.split())) for name in names}


def _header(widths: Mapping[str, int]) -> str:
    """Return names above their columns, each in as many lines as it needs."""
    cells = [textwrap.wrap(name, width) for name, width in widths.items()]
    height = max(map(len, cells))
    cells = [[""] * (height - len(cell)) + cell for cell in cells]
    heads = [""] * (height - 1) + ["held out"]
    sizes = [10, *widths.values()]
    return "\n".join(
        "  ".join(f"{text:>{size}}" for text, size in zip(row, sizes, strict=True)).rstrip()
        for row in zip(heads, *cells, strict=True)
    )


def figure(x: float) -> str:
    """Return a measure as 0.8532 or 45.2."""
    return f"{x:.4f}" if abs(x) < 10 else f"{x:.1f}"


def wrapped(head: str, values: list[str], columns: int | None) -> str:
    """Return values side by side behind `head`, in lines of fewer than `columns` columns."""
    lines = [head]
    for value in values:
        if columns and len(lines[-1]) + len(value) >= columns and lines[-1].strip():
            lines.append(" " * min(len(head), columns // 4))
        lines[-1] += f"{value}  "
    return "\n".join(line.rstrip() for line in lines)
