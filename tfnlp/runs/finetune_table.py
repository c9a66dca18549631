"""Measures of several fine-tuning runs as a table."""

import statistics


def rows_as_json(rows: dict[str | None, list]) -> dict[str, list]:
    """Return `rows` with a name for what was fine-tuned as a whole."""
    return {choice or "fine-tuned": metrics for choice, metrics in rows.items()}


def table(rows: dict[str | None, list[dict[str, float]]], main: str) -> str:
    """Return mean and standard deviation over seeds, as text.

    Args:
        rows: Name (None: fine-tuned) to the metrics of each seed.
        main: The metric to put first.
    """
    names = sorted(next(iter(rows.values()))[0], key=lambda name: name != main)
    names = [name for name in names if not name.endswith("_thresh") and "/" not in name]
    lines = [f"{'dev':18s}" + "".join(f"{name:>20s}" for name in names)]
    for choice, metrics in rows.items():
        cells = [mean_and_deviation([m[name] for m in metrics]) for name in names]
        lines.append(f"{choice or 'fine-tuned':18s}" + "".join(f"{cell:>20s}" for cell in cells))
    return "\n".join(lines)


def mean_and_deviation(values: list[float]) -> str:
    """Return of one value the value, of several mean and standard deviation (of a sample)."""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"
