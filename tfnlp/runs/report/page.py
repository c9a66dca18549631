"""The report of a fine-tuned model: one self-contained page, and its predictions."""

import contextlib
import importlib.resources
import json
import os
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from tfnlp.extras import needed
from tfnlp.files import write_text, written_whole
from tfnlp.runs.report import charts
from tfnlp.tasks import HeadTask
from tfnlp.tasks.baselines import Baseline

_ERRORS = 30  # that are shown


def write_report(
    directory: str | os.PathLike[str],
    *,
    title: str,
    task: HeadTask,
    summary: Mapping[str, Any],
    metrics: Mapping[str, float],
    history: Mapping[str, list[dict]] | None,
    baselines: Mapping[str, Baseline],
    rows: Iterable[Mapping[str, Any]],
) -> str:
    """Write DIRECTORY/index.html and DIRECTORY/predictions.jsonl; return the page's path.

    The page has the measures beside those of the simplest guess, the learning curve, a picture of
    right and wrong predictions, and the worst errors with their text. The pictures are inside the
    page, and it loads nothing. A report that fails leaves an older one unchanged.

    Args:
        history: What `tfnlp.training.History.state` returns; None: no learning curve.
        baselines: Those of the task, by measure.
        rows: What `Task.report_row` returns of each example.
    """
    rows = list(rows)
    wrong = sorted((row for row in rows if task.is_wrong(row)), key=task.badness, reverse=True)
    guesses = {name: f"{_number(b.value)} ({b.guess})" for name, b in baselines.items()}
    page = _template().render(
        title=title,
        task=task.name,
        count=len(rows),
        summary={
            # A learning rate or a dropout as it was given, not rounded.
            name: f"{value:g}" if isinstance(value, float) else _number(value)
            for name, value in summary.items()
        },
        metrics=[
            {"name": name, "value": _number(value), "baseline": guesses.get(name)}
            for name, value in metrics.items()
            if "/" not in name  # those of single labels are in a table
        ],
        figures=[*charts.curves(history), charts.picture(task.chart(rows))],
        tables=task.tables(rows),
        errors={
            "order": task.worst_first,
            "head": task.error_columns,
            "rows": [task.error_cells(row) for row in wrong[:_ERRORS]],
        },
        wrong=len(wrong),
    )
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]

    os.makedirs(directory, exist_ok=True)
    contents = {"predictions.jsonl": "".join(lines), "index.html": page}
    with contextlib.ExitStack() as both:
        for name, text in contents.items():
            partial = both.enter_context(written_whole(os.path.join(directory, name)))
            write_text(partial, text)
    return os.path.join(directory, "index.html")


def _number(value: Any) -> str:
    """Return a number as a readable string; other values as `str` gives them."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if value and abs(value) < 0.01:
        return f"{value:.3g}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.2f}"


def check_packages() -> ModuleType:
    """Return jinja2; call it before slow work."""
    needed("matplotlib", "matplotlib", "report", "`report`")
    return needed("jinja2", "jinja2", "report", "`report`")


def _template() -> Any:
    jinja2 = check_packages()
    text = importlib.resources.files("tfnlp.runs.report").joinpath("report.html").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)
