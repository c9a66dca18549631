"""Charts of a page, as plotly.js takes them: learning curves, confusion, maps, histograms."""

import collections
import functools
import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfnlp.objectives.measure_names import in_words
from tfnlp.tasks.report import (
    SHOWN,
    Attention,
    Bars,
    Chart,
    Confusion,
    Histogram,
    Lengths,
    Map,
    Scatter,
    shown_classes,
)
from tfnlp.text.lines import shortened
from tfnlp.training.history import History

Figure = dict[str, Any]  # "title"; "data" and "layout" of plotly.js

_LONGEST = 24  # characters of a label in a picture; tables have all of them
_FIRST, _LAST = ("loss",), ("learning_rate", "gradient_norm")  # of the curves
_GROUPS = 8  # that a map has colours for
_LINE, _ROW, _LOW = 60, 26, 360  # characters of a line of a hint; pixels of a bar, of a chart
# The middle of the scale is transparent, so that it suits a light page and a dark one.
_SCALE = [[0, "rgba(66,133,244,0)"], [1, "rgba(66,133,244,0.9)"]]


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
    learnt, measured = _names(train), _names(held_out)
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
            found.append(_figure(in_words(name), data, layout))
    return found


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of values, without those of single labels."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if name != "step" and "/" not in name]


def _line(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, list]:
    points = [row for row in rows if name in row]
    return {"x": [row["step"] for row in points], "y": [row[name] for row in points]}


@functools.singledispatch
def picture(chart: Chart) -> Figure:
    """Return a chart of a task as plotly.js takes it."""
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
    return _plain(found)


@picture.register
def _(chart: Confusion) -> Figure:
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
    data = {
        "type": "heatmap", "x": ticks, "y": ticks, "z": shares, "zmin": 0, "zmax": 1,
        "text": [[str(count) if count else "" for count in row] for row in counts],
        "texttemplate": "%{text}",
        "hovertemplate": "gold %{y}<br>predicted %{x}<br>%{text} (%{z:.0%})<extra></extra>",
        "colorscale": _SCALE, "xgap": 1, "ygap": 1,
        "colorbar": {"title": {"text": "of the gold class", "side": "right"}, "thickness": 10},
    }  # fmt: skip
    axis = {"type": "category", "showgrid": False}
    layout = {
        "xaxis": {**axis, "title": {"text": "predicted"}},
        "yaxis": {**axis, "title": {"text": "gold", "standoff": 12}, "autorange": "reversed"},
        "height": max(_LOW, 160 + _ROW * len(names)),
    }
    more = len(set(truth) | set(guess)) > len(names)
    return _figure(f"Confusion ({SHOWN} commonest)" if more else "Confusion", [data], layout)


@picture.register
def _(chart: Bars) -> Figure:
    """Draw precision and recall of each label, the commonest from the top down."""
    names, counts, found = chart.names, chart.counts, chart.measures
    ticks = [f"{tick} ({counts[name]})" for tick, name in zip(distinct(names), names, strict=True)]
    data = [
        {"type": "bar", "orientation": "h", "name": name, "y": ticks,
         "x": [found.get(f"{name}/{label}", 0.0) for label in names]}
        for name in ("precision", "recall")
    ]  # fmt: skip
    layout = {
        "xaxis": {"range": [0, 1]},
        "yaxis": {"autorange": "reversed", "type": "category"},
        "height": max(_LOW, 120 + 1.5 * _ROW * len(names)),
    }
    return _figure(f"By label, with its examples (the {len(names)} commonest)", data, layout)


@picture.register
def _(chart: Scatter) -> Figure:
    gold, guess = chart.gold, chart.guess
    low, high = min(*gold, *guess), max(*gold, *guess)
    data: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "markers", "x": gold, "y": guess, "marker": {"opacity": 0.5}}
    ]
    if chart.same_scale:
        line = {"color": "rgba(128,128,128,0.6)", "dash": "dash", "width": 1}
        ends = [low, high]
        data.append({"type": "scatter", "mode": "lines", "x": ends, "y": ends, "line": line})
    axes = {"xaxis": {"title": {"text": chart.across}}, "yaxis": {"title": {"text": chart.up}}}
    return _figure(chart.title, data, {**axes, "showlegend": False})


@picture.register
def _(chart: Histogram) -> Figure:
    values = [value for group in chart.groups.values() for value in group]
    low, high = chart.range or (min(values), max(values))
    bins = {"start": low, "end": high, "size": (high - low) / 20 or 1}
    data = [
        {"type": "histogram", "name": name, "x": group, "xbins": bins, "opacity": 0.7}
        for name, group in zip(_plain(list(chart.groups)), chart.groups.values(), strict=True)
    ]
    layout = {
        "barmode": "overlay" if chart.overlay else "stack",
        "xaxis": {"title": {"text": chart.axis}, "range": [low, high]},
    }
    return _figure(chart.title, data, layout)


@picture.register
def _(chart: Lengths) -> Figure:
    longest = 20  # words; longer answers share the last bar
    data = []
    for name, column in (("gold", chart.gold), ("predicted", chart.guess)):
        counts = collections.Counter(min(len(text.split()), longest) for text in column)
        heights = [counts[length] for length in range(longest + 1)]
        data.append({"type": "bar", "name": name, "x": [*range(longest + 1)], "y": heights})
    ticks = [*range(0, longest + 1, 4)]
    texts = [*map(str, ticks[:-1]), f"≥{longest}"]
    title = {"text": "words of the answer (0: none)"}
    layout = {
        "xaxis": {"title": title, "tickvals": ticks, "ticktext": texts},
        "yaxis": {"title": {"text": "questions"}},
    }
    return _figure("Length of answers", data, layout)


@picture.register
def _(chart: Map) -> Figure:
    """Draw points of groups in colours, of numbers on a scale; a hint has a point's text."""
    points = list(zip(chart.places, chart.texts, strict=True))
    numbers = all(isinstance(group, int | float) for group in chart.groups)
    names = ["" if numbers else str(group) for group in chart.groups]
    common = dict(collections.Counter(names).most_common(_GROUPS))
    groups: dict[str, list[int]] = collections.defaultdict(list)
    for number, name in enumerate(names):
        groups[name if name in common else "others"].append(number)
    data = []
    for name, some in sorted(groups.items(), key=lambda item: -len(item[1])):
        trace: dict[str, Any] = {
            "type": "scatter", "mode": "lines+markers" if chart.pairs else "markers",
            "name": distinct([name])[0], "x": [], "y": [], "text": [],
            "marker": {"size": 6, "opacity": 0.75}, "line": {"width": 0.7},
            "hovertemplate": "%{text}<extra></extra>",
        }  # fmt: skip
        colours = []
        for number in some:
            ends = points[2 * number : 2 * number + 2] if chart.pairs else [points[number]]
            for (x, y), text in ends:
                trace["x"].append(x)
                trace["y"].append(y)
                trace["text"].append(_hint(text, chart.groups[number]))
                colours.append(chart.groups[number])
            if chart.pairs:  # a gap in the line
                for key in ("x", "y", "text"):
                    trace[key].append(None)
                colours.append(None)
        if numbers:
            bar = {"title": {"text": "gold", "side": "right"}, "thickness": 10}
            trace["marker"] |= {"color": colours, "colorscale": "Viridis", "colorbar": bar}
            trace["line"]["color"] = "rgba(128,128,128,0.4)"
        data.append(trace)
    nothing = {"visible": False}
    layout = {"xaxis": nothing, "yaxis": nothing, "showlegend": len(groups) > 1, "height": 420}
    return _figure(chart.title, data, layout)


@picture.register
def _(chart: Attention) -> Figure:
    """Draw the layers one at a time, chosen by a slider; all have one scale."""
    tokens, layers = chart.tokens, range(len(chart.layers))
    heat = {
        "type": "heatmap",
        "zmin": 0,
        "zmax": max(share for rows in chart.layers for row in rows for share in row),
        "hovertemplate": "%{y} looks at %{x}: %{z:.3f}<extra></extra>",
        "colorscale": [_SCALE[0], [0.2, "rgba(66,133,244,0.5)"], _SCALE[1]],
        "showscale": False,
    }
    data = [{**heat, "z": chart.layers[n], "visible": n == layers[-1]} for n in layers]
    steps = [
        {"label": str(n + 1), "method": "restyle", "args": ["visible", [x == n for x in layers]]}
        for n in layers
    ]
    axis = {
        "tickvals": [*range(len(tokens))],
        "ticktext": _plain([shortened(token, _LONGEST) for token in tokens]),
        "tickfont": {"size": 9}, "showgrid": False, "zeroline": False,
    }  # fmt: skip
    slider = {
        "steps": steps, "active": layers[-1], "currentvalue": {"prefix": "layer "}, "y": 1,
        "yanchor": "bottom", "pad": {"b": 10}, "bgcolor": "rgba(128,128,128,0.6)",
    }  # fmt: skip
    layout = {
        "xaxis": {**axis, "tickangle": -90},
        "yaxis": {**axis, "autorange": "reversed"},
        "sliders": [slider],
        "height": max(_LOW, 220 + 14 * len(tokens)),
    }
    return _figure(f"Attention in the worst short {chart.of}, mean of the heads", data, layout)


def plane(points: np.ndarray) -> list[list[float]]:
    """Return the coordinates of points `[N, D]` on their two principal axes, `[N, 2]`."""
    centred = np.asarray(points, np.float64) - np.mean(points, 0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return np.round(centred @ axes[:2].T, 4).tolist()


def _hint(text: str, group: Any) -> str:
    """Return what is shown beside the pointer: a text in lines, and its group."""
    text = shortened(text, 4 * _LINE)
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    shown = f"{group:.4g}" if isinstance(group, float) else str(group)
    return "<br>".join(_plain([*lines, *([] if group is None else [shown])]))


def _plain(texts: Sequence[str]) -> list[str]:
    """Return texts that plotly.js shows as they are: it reads some marks of HTML."""
    return [html.escape(text, quote=False) for text in texts]


def _figure(title: str, data: list[dict], layout: dict) -> Figure:
    return {"title": title, "data": data, "layout": layout}
