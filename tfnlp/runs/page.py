"""The page of a run: one HTML file that loads nothing, written again while the run goes on."""

import base64
import dataclasses
import functools
import gzip
import html
import importlib.resources
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import keras

from tfnlp.cards import Card
from tfnlp.extras import MissingPackage, needed, say_once
from tfnlp.files import joined, write_text
from tfnlp.objectives.measure_names import in_words
from tfnlp.tasks import HeadTask
from tfnlp.tasks.baselines import Baseline
from tfnlp.tasks.report import Figure, Table, figure
from tfnlp.training import History, Trainer
from tfnlp.training.run import read_config

PAGE = "page.html"
_FIRST, _LAST = ("loss",), ("learning_rate", "gradient_norm")  # of the curves
_SECONDS = 10  # after which the page of a run that goes on is loaded again
EXAMPLES = 500  # that a page has; their file has all


def write_page(
    path: str,
    title: str,
    card: Card,
    *,
    measures: Sequence[Table],
    curves: Sequence[Figure] = (),
    charts: Sequence[Figure] = (),
    examples: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any],
    live: bool = False,
) -> None:
    """Write a page, whole or not at all; what it shows stands here from the top down.

    Of a run that goes on (`live`) a browser loads the page again.

    Raises:
        MissingPackage: Without plotly.
    """
    data = {
        "title": title,
        "summary": card.summary,
        "live": live,
        "measures": [dataclasses.asdict(table) for table in measures],
        "curves": curves,
        "charts": charts,
        "examples": examples,
        "facts": [(n, x) for n, x in card.facts().items() if n != "measures"],
        "settings": [*_flat({n: x for n, x in settings.items() if n != "files"})],
    }
    # No text of the user ends the element that the data is in.
    text = json.dumps(_finite(data), ensure_ascii=False).replace("<", "\\u003c")
    refresh = f'<meta http-equiv="refresh" content="{_SECONDS}">' if live else ""
    parts = {"title": html.escape(title), "refresh": refresh, "data": text}
    parts["plotly"] = _plotly_js()
    template = importlib.resources.files("tfnlp.runs").joinpath(PAGE).read_text("utf-8")
    write_text(path, re.sub(r"@(title|refresh|data|plotly)@", lambda m: parts[m[1]], template))


class RunPage:
    """The page in a run's folder, of what the run stores; nothing where plotly is missing.

    `main` is the measure that chooses the checkpoint; `writes` says whether a page is written.
    """

    def __init__(self, folder: str, title: str, trainer: Trainer, main: str = "loss") -> None:
        self.path, self._folder, self._title = joined(folder, PAGE), folder, title
        self._trainer, self._main = trainer, main
        try:
            plotly()
            self.writes = trainer.workers.chief
        except MissingPackage as error:
            say_once(str(error))
            self.writes = False

    def write(self, card: Card, live: bool = False, **sections: Any) -> None:
        """Write the page: sections are those of `write_page` that the history does not have."""
        if not self.writes:
            return
        history, main = self._trainer.history, self._main
        found = {
            "measures": [held_out(history, main)],
            "curves": curves(history, main, self._trainer.objective.report),
            "settings": read_config(self._folder),
        }
        write_page(self.path, self._title, card, live=live, **{**found, **sections})

    def callback(self, card: Card) -> keras.callbacks.Callback:
        """Return a callback of `Trainer.fit`, which writes the page after each evaluation."""

        def write(*_: Any) -> None:
            self.write(card, live=True)

        if self.writes:
            print(f"page: {self.path}", flush=True)
        return keras.callbacks.LambdaCallback(on_train_begin=write, on_epoch_end=write)


def curves(
    history: History, main: str = "loss", report: Callable[[dict], dict] = dict
) -> list[Figure]:
    """Return a chart for each value of a history, in training and held out.

    The loss and `main` come first, the learning rate and the norm of the gradient last. A measure
    that training has of its batches under a longer name, such as `class_accuracy` for `accuracy`,
    is drawn beside the held-out one. The best held-out value is written.

    Args:
        report: An objective's function that derives values from means.
    """
    train, held_out = [report(row) for row in history.train], history.validation
    learnt, measured = _value_names(train), _value_names(held_out)
    beside = {name: [n for n in learnt if n.endswith(f"_{name}")] for name in measured}
    beside = {name: n[0] for name, n in beside.items() if len(n) == 1 and name not in learnt}
    names = [name for name in (*measured, *learnt) if name not in beside.values()]
    names = dict.fromkeys([*_FIRST, main, *(n for n in names if n not in _LAST), *_LAST])
    found, drawn = [], []
    for name in names:
        lines = (
            ("training", train, beside.get(name, name), {"mode": "lines"}),
            ("held out", held_out, name, {"mode": "lines+markers"}),
        )
        data = [
            {"type": "scatter", "name": label, "line": {"width": 1.5}, **style, **_line(rows, key)}
            for label, rows, key, style in lines
        ]
        layout: dict[str, Any] = {"xaxis": {"title": {"text": "updates"}}}
        if name in measured:
            step = history.best_step(name)
            best = next(r[name] for r in held_out if r["step"] == step and name in r)
            place = {"x": step, "y": best, "text": f"{best:.4g}", "showarrow": False, "yshift": 12}
            layout["annotations"] = [place]
        if name.endswith("perplexity"):
            layout["yaxis"], layout["annotations"] = {"type": "log"}, []
        points = [(trace["x"], trace["y"]) for trace in data]
        if any(trace["x"] for trace in data) and points not in drawn:  # as `class_loss` and `loss`
            drawn.append(points)
            layout["showlegend"] = all(trace["x"] for trace in data)
            found.append(figure(in_words(name), data, layout))
    return found


def _value_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of values, without those of single labels."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if name != "step" and "/" not in name]


def _line(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, list]:
    points = [row for row in rows if name in row]
    return {"x": [row["step"] for row in points], "y": [row[name] for row in points]}


def held_out(history: History, main: str = "loss") -> Table:
    """Return the held-out values of a history: those of the best evaluation, and the last ones."""
    rows = history.validation
    step = history.best_step(main)
    best = next((row for row in rows if row["step"] == step), {})
    last = rows[-1] if rows else {}
    cells = [[in_words(n), shown(best.get(n)), shown(last[n])] for n in _value_names([last])]
    head = ["measure", f"best, after {step} updates", f"last, after {last.get('step')}"]
    return Table("Held out", head, cells)


def measures(
    metrics: Mapping[str, float],
    beside: Mapping[str, str] | None = None,
    name: str = "",
    main: str = "",
) -> Table:
    """Return a table of measures, `main` first; those of single labels are left out.

    `beside` is what stands beside them, in a column that is called `name`.
    """
    names = sorted(_value_names([metrics]), key=lambda n: n != main)
    cells = [[in_words(n), shown(metrics[n]), (beside or {}).get(n, "")] for n in names]
    return Table("Measures", ["measure", "value", name], cells)


def worst_first(task: HeadTask, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the order of rows of `Task.report_row`: mistakes first, the worst of them first."""
    return sorted(
        range(len(rows)), key=lambda n: (not task.is_wrong(rows[n]), -task.badness(rows[n]))
    )


def of_rows(
    task: HeadTask,
    rows: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, float],
    baselines: Mapping[str, Baseline],
    main: str,
    *more: Figure | None,
) -> dict[str, Any]:
    """Return the sections of a page about labelled examples: `rows` of `Task.report_row`.

    The measure `main` stands first, `more` charts last. Of many examples the page has the worst.
    """
    wrong, order = [task.is_wrong(row) for row in rows], worst_first(task, rows)
    beside = {name: f"{shown(b.value)} ({b.guess})" for name, b in baselines.items()}
    return {
        "measures": [measures(metrics, beside, "simplest guess", main), *task.tables(rows)],
        "charts": [task.chart(rows), *(chart for chart in more if chart is not None)],
        "examples": {
            "order": task.worst_first,
            "head": task.error_columns,
            "count": len(rows),
            "wrong": sum(wrong),
            "rows": [
                {"wrong": wrong[n], "cells": task.error_cells(rows[n])} for n in order[:EXAMPLES]
            ],
        },
    }


def mapped(task: HeadTask, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the texts and the gold of rows of `Task.report_row`, as columns for a map."""
    texts = ["".join(text for text, _ in task.error_cells(row)[-1]) for row in rows]
    golds = [row["gold"] for row in rows]
    if task.labels:  # classes may be numbers
        golds = [", ".join(map(str, x)) if isinstance(x, list | tuple) else str(x) for x in golds]
    return {"text": texts, "gold": golds}


def shown(value: Any) -> str:
    """Return a number as a readable string; other values as `str` gives them."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if value and abs(value) < 0.01:
        return f"{value:.3g}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.2f}"


def plotly() -> ModuleType:
    """Return the part of plotly that has plotly.js; call it before slow work."""
    return needed("plotly.offline", "plotly", "pictures", PAGE)


@functools.cache
def _plotly_js() -> str:
    """Return plotly.js, compressed and in base64; a browser has what undoes both."""
    source = plotly().get_plotlyjs().encode()
    return base64.b64encode(gzip.compress(source, mtime=0)).decode("ascii")


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Yield the settings in nested dicts as rows of a table; numbers as they were given."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", f"{value:g}" if isinstance(value, float) else str(value)


def _finite(value: Any) -> Any:
    """Return nested data with None in place of numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {name: _finite(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
