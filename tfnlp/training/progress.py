"""The display of a training: steps, loss, speed and time left, and what is measured between."""

from __future__ import annotations

from collections.abc import Mapping

from tfnlp.bars import ProgressBar, short
from tfnlp.objectives.measure_names import in_words


class Progress:
    """A display on stderr of the steps from `first` to `total`; without `enabled` of nothing."""

    def __init__(self, first: int, total: int, enabled: bool = True) -> None:
        self.bar = ProgressBar(first=first, total=total, unit="steps", disable=not enabled)

    def update(self, step: int, figures: Mapping[str, float]) -> None:
        """Move the bar to `step`; `figures` are floats by name, such as `loss`."""
        loss = [f"loss {figures['loss']:.3f}"] if "loss" in figures else []
        self.bar.figures = [*loss, _speed(figures)]
        self.bar.update(step - self.bar.n)

    def note(self, step: int, logs: Mapping[str, float]) -> None:
        """Print held-out values, without those of single labels."""
        values = {in_words(name): figure(x) for name, x in logs.items() if "/" not in name}
        if not values:
            return
        texts = [f"{name} {value}" for name, value in values.items()]
        self.bar.write(wrapped(f"step {step} held out: ", texts, self.bar.columns))

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
