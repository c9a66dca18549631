"""Pictures of a report, as PNG data: learning curve, confusion matrix, scatter plot, lengths."""

import base64
import collections
import contextlib
import functools
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfnlp.pictures import draw_curves, matplotlib_module, subplots
from tfnlp.tasks.report import (
    SHOWN,
    Bars,
    Chart,
    Confusion,
    Lengths,
    Scatter,
    Sureness,
    shown_classes,
)
from tfnlp.text.lines import shortened

Picture = dict[str, Any]  # "title", "image" (a data URI), "width" in pixels

_LONGEST = 24  # characters of a label in a picture; tables have all of them
_INCHES = 0.085  # of a character
CURVES = (
    "loss",
    "accuracy",
    "f1",
    "micro_f1",
    "macro_f1",
    "exact_match",
    "matthews",
    "pearson",
    "spearman",
)


def curves(history: Mapping[str, list[dict]] | None) -> list[Picture]:
    """Return the learning curve as a list of one picture, empty if nothing was recorded.

    It shows the loss and up to two held-out measures, and marks the best held-out value.
    """
    train, held_out = (history or {}).get("train", []), (history or {}).get("validation", [])
    measured = {name for row in [*train, *held_out] for name in row}
    names = [name for name in CURVES if name in measured][:3]
    if not names:
        return []
    with _figure(1, len(names), 4.4 * len(names), 3.3) as (figure, axes):
        for axis, name in zip(axes[0], names, strict=True):
            held = draw_curves(axis, train, held_out, name)
            if held:
                choose = min if name == "loss" else max
                best = choose(held, key=lambda row: row[1])
                axis.annotate(
                    f"{best[1]:.4g}",
                    best,
                    textcoords="offset points",
                    xytext=(0, 6),
                    ha="center",
                    fontsize=8,
                    color="C1",
                )
                axis.margins(y=0.12)
        return [_png(figure, "Learning curve")]


@functools.singledispatch
def picture(chart: Chart) -> Picture:
    """Return the picture of a chart."""
    raise TypeError(f"no picture of {type(chart).__name__}")


def distinct(names: Sequence[str]) -> list[str]:
    """Return names of at most 24 characters, longer ones without their middle, no two the same."""
    shown = [shortened(name, _LONGEST) for name in names]
    counts, found = collections.Counter(shown), []
    for name in shown:
        found.append(name)
        if counts[name] > 1:
            number = f" ({sum(f.startswith(name) for f in found)})"
            found[-1] = name + number
    return found


@picture.register
def _(chart: Confusion) -> Picture:
    truth, guess = chart.truth, chart.guess
    names = shown_classes(truth, guess, chart.labels)
    # Rows sum to all gold examples of a class, also those predicted as a class not shown.
    totals = collections.Counter(truth)
    pairs = collections.Counter(zip(truth, guess, strict=True))
    counts = [[pairs[gold, other] for other in names] for gold in names]
    shares = [
        [count / max(1, totals[name]) for count in row]
        for name, row in zip(names, counts, strict=True)
    ]
    ticks = distinct(names)
    cells, beside = max(0.42 * len(names), 2.4), _INCHES * max(map(len, ticks))
    upright = len(names) > 3 or beside > cells / len(names)
    height = 1.1 + cells + (beside if upright else 0.2)
    with _figure(1, 1, 2.2 + cells + beside, height) as (figure, axes):
        axis = axes[0][0]
        image = axis.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        axis.set_xticks(range(len(names)), ticks, rotation=90 if upright else 0)
        axis.set_yticks(range(len(names)), ticks)
        axis.set_xlabel("predicted")
        axis.set_ylabel("gold")
        for i, row in enumerate(counts):
            for j, count in enumerate(row):
                if count:
                    axis.text(
                        j,
                        i,
                        f"{count}",
                        ha="center",
                        va="center",
                        fontsize=9 if len(names) < 8 else 7,
                        color="white" if shares[i][j] > 0.55 else "black",
                    )
        figure.colorbar(image, ax=axis, shrink=0.8, label="share of the gold class")
        more = len(set(truth) | set(guess)) > len(names)
        return _png(figure, f"Confusion ({SHOWN} commonest)" if more else "Confusion")


@picture.register
def _(chart: Bars) -> Picture:
    """Draw precision and recall of each label, the commonest from the top down."""
    names, counts, found = chart.names, chart.counts, chart.measures
    ticks = [f"{tick} ({counts[name]})" for tick, name in zip(distinct(names), names, strict=True)]
    width = 4.6 + _INCHES * max(map(len, ticks))
    with _figure(1, 1, width, 1.2 + 0.38 * len(names)) as (figure, axes):
        axis = axes[0][0]
        for shift, name, color in ((-0.2, "precision", "C0"), (0.2, "recall", "C1")):
            values = [found.get(f"{name}/{label}", 0.0) for label in names]
            places = [place + shift for place in range(len(names))]
            axis.barh(places, values, height=0.4, label=name, color=color)
        axis.set_yticks(range(len(names)), ticks)
        axis.invert_yaxis()
        axis.set_xlim(0, 1)
        axis.grid(alpha=0.3, axis="x")
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
        return _png(figure, f"By label, with its examples (the {len(names)} commonest)")


@picture.register
def _(chart: Scatter) -> Picture:
    gold, guess = chart.gold, chart.guess
    low, high = min(*gold, *guess), max(*gold, *guess)
    with _figure(1, 1, 4.6, 4.2) as (figure, axes):
        axis = axes[0][0]
        axis.plot([low, high], [low, high], color="0.6", linewidth=1, linestyle="--")
        alpha = min(0.7, max(0.2, 300 / len(gold)))
        axis.scatter(gold, guess, s=12, alpha=alpha, color="C0", linewidths=0)
        axis.set_xlabel("gold")
        axis.set_ylabel("predicted")
        axis.grid(alpha=0.3)
        return _png(figure, "Predicted and gold scores")


@picture.register
def _(chart: Sureness) -> Picture:
    with _figure(1, 1, 5.0, 3.3) as (figure, axes):
        axis = axes[0][0]
        axis.hist(
            [chart.right, chart.wrong],
            bins=20,
            range=(0.0, 1.0),
            stacked=True,
            label=["right", "wrong"],
            color=["C0", "C1"],
        )
        axis.set_xlabel("probability of the gold choice")
        axis.set_ylabel("examples")
        axis.grid(alpha=0.3)
        axis.legend()
        return _png(figure, "How sure of the gold choice")


@picture.register
def _(chart: Lengths) -> Picture:
    longest = 20  # words; longer answers share the last bar
    texts = {"gold": chart.gold, "predicted": chart.guess}
    with _figure(1, 1, 6.2, 3.3) as (figure, axes):
        axis = axes[0][0]
        for shift, (name, column) in zip((-0.2, 0.2), texts.items(), strict=True):
            counts = collections.Counter(min(len(text.split()), longest) for text in column)
            heights = [counts[length] for length in range(longest + 1)]
            places = [length + shift for length in range(longest + 1)]
            axis.bar(places, heights, width=0.4, label=name, color="C1" if shift < 0 else "C0")
        axis.set_xticks(range(0, longest + 1, 2), [*range(0, longest, 2), f"≥{longest}"])
        axis.set_xlabel("words of the answer (0: none)")
        axis.set_ylabel("questions")
        axis.grid(alpha=0.3, axis="y")
        axis.legend()
        return _png(figure, "Length of answers")


@contextlib.contextmanager
def _figure(rows: int, columns: int, width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes; restore matplotlib's settings after."""
    # Class names are text: a "$" in them (a tag of the Penn Treebank) begins no formula.
    settings = {"text.parse_math": False, "font.size": 9}
    with matplotlib_module().rc_context(settings):
        yield subplots(rows, columns, figsize=(width, height), squeeze=False)


def _png(figure: Any, title: str) -> Picture:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    width = round(figure.get_figwidth() * 96)
    return {"title": title, "image": f"data:image/png;base64,{data}", "width": width}
