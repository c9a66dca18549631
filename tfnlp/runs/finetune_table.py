"""Measures of several fine-tuning runs as a table."""

import statistics
from typing import Any


def rows_as_json(rows: dict[str | None, list]) -> dict[str, list]:
    """Return `rows` with a name for what was fine-tuned as a whole."""
    return {choice or "fine-tuned": metrics for choice, metrics in rows.items()}


def table(rows: dict[str | None, list[dict[str, float]]], main: str, what: str = "dev") -> str:
    """Return mean and standard deviation over seeds or folds, as text.

    Args:
        rows: Name (None: fine-tuned) to the metrics of each seed.
        main: The metric to put first.
        what: The measures are of.
    """
    names = sorted(next(iter(rows.values()))[0], key=lambda name: name != main)
    names = [
        name for name in names if not name.endswith("_thresh") and ("/" not in name or name == main)
    ]
    lines = [f"{what:18s}" + "".join(f"{name:>20s}" for name in names)]
    for choice, metrics in rows.items():
        cells = [mean_and_deviation([m[name] for m in metrics]) for name in names]
        lines.append(f"{choice or 'fine-tuned':18s}" + "".join(f"{cell:>20s}" for cell in cells))
    return "\n".join(lines)


def mean_and_deviation(values: list[float]) -> str:
    """Return of one value the value, of several mean and standard deviation (of a sample)."""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"


def trials_table(trials: list[dict[str, Any]], metric: str) -> str:
    """Return the settings and the value of each trial of a search, the best marked by a star."""
    names = list(trials[0]["settings"])
    best = max(t["value"] for t in trials if t.get("value") is not None)
    lines = [f"{'trial':10s}" + "".join(f"{name:>16s}" for name in [*names, metric])]
    for trial in trials:
        cells = [f"{trial['settings'][name]:.4g}" for name in names]
        value = trial.get("value")
        cells.append("failed" if value is None else f"{value:.4f}")
        line = f"{trial['trial']:10s}" + "".join(f"{cell:>16s}" for cell in cells)
        lines.append(line + " *" * (value == best))
    return "\n".join(lines)
