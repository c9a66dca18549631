"""BLEU by length and searches, as PNG files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from tfnlp.extras import MissingPackage, needed, say_once
from tfnlp.files import written_whole


def plot_lengths(models: Mapping[str, Sequence[Any]], path: str | os.PathLike[str]) -> None:
    """Draw BLEU against the number of words of the source, a line for each model.

    A model has its rows from `objectives.translation.bleu_by_length`, all of the same sources.
    """
    figure, axis = subplots(figsize=(6.4, 3.6))
    for name, rows in models.items():
        axis.plot(range(len(rows)), [row.bleu for row in rows], marker="o", label=name or None)
        labels = [
            f"{r.shortest}" + f"–{r.longest}" * (r.longest > r.shortest) + f"\n({r.count})"
            for r in rows
        ]
        axis.set_xticks(range(len(rows)), labels)
    axis.set_xlabel("words of the source (sentences)")
    axis.set_ylabel("BLEU")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    if any(models):
        axis.legend()
    write_figure(figure, path)


def plot_search(
    trials: Sequence[Mapping[str, Any]], path: str | os.PathLike[str], name: str
) -> None:
    """Draw the value of each trial of a search against its learning rate.

    The colour is the batch size and the size of a point the number of epochs, where these differ.

    `trials` are dicts with "settings" (`learning_rate`, `batch_size`, `epochs` or some of these),
    "value" and "trial", the name.
    """
    figure, axis = subplots(figsize=(6.4, 4.0))
    settings = [trial["settings"] for trial in trials]
    across = next(n for n in ("learning_rate", "batch_size", "epochs") if n in settings[0])
    batches = sorted({one.get("batch_size") for one in settings}, key=lambda n: n or 0)
    for color, batch in enumerate(batches):
        some = [t for t in trials if t["settings"].get("batch_size") == batch]
        axis.scatter(
            [t["settings"][across] for t in some],
            [t["value"] for t in some],
            s=[18 * t["settings"].get("epochs", 2.0) for t in some],
            color=f"C{color}",
            label=None if batch is None else f"batch {batch}",
        )
    best = max(trials, key=lambda trial: trial["value"])
    place = (best["settings"][across], best["value"])
    axis.annotate(best["trial"], place, textcoords="offset points", xytext=(-6, 6), ha="right")
    axis.margins(0.1)
    if across == "learning_rate":
        ticker = matplotlib_module("matplotlib.ticker")
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_formatter(ticker.NullFormatter())
    if "epochs" in settings[0] and across != "epochs":
        axis.set_title("larger points: more epochs", fontsize=9)
    axis.set_xlabel(across.replace("_", " "))
    axis.set_ylabel(name.replace("_", " "))
    axis.grid(alpha=0.3)
    if batches != [None]:
        axis.legend()
    write_figure(figure, path)


def write_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure whole or not at all."""
    kind = os.path.splitext(path)[1][1:] or "png"
    with written_whole(path) as partial:
        figure.savefig(partial, dpi=120, format=kind)


def subplots(*counts: int, figsize: tuple[float, float], **settings: Any) -> tuple[Any, Any]:
    """Return a new figure with its axes, as `matplotlib.pyplot.subplots` does.

    pyplot is left alone: its backend and open figures are the caller's, such as a notebook's.
    """
    figure = matplotlib_module("matplotlib.figure").Figure(figsize=figsize, layout="constrained")
    matplotlib_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    return figure, figure.subplots(*counts, **settings)


def matplotlib_module(name: str = "matplotlib") -> ModuleType:
    """Return a module of matplotlib."""
    return needed(name, "matplotlib", "pictures", "a picture")


def can_draw(name: str) -> bool:
    """Return whether matplotlib is installed; if not, say once that a file is not drawn."""
    try:
        matplotlib_module()
    except MissingPackage:
        say_once(f"{name} is not drawn: pip install matplotlib (the extra `pictures`)")
        return False
    return True
