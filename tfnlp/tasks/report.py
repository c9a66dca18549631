"""What the page of a run shows of its task: tables, cells of examples, and charts for plotly.js."""

from __future__ import annotations

import collections
import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import precision_recall_fscore_support

from tfnlp.text.lines import shortened

Row = Mapping[str, Any]  # an example and its prediction, see `HeadTask.report_row`
# (text, mark) pairs: the mark is None, "right", "wrong", "gold" or "guess". The page escapes them.
Cell = list[tuple[str, str | None]]

_LONGEST = 900  # characters of a text that are shown; predictions.jsonl has it whole
Figure = dict[str, Any]  # "title"; "data" and "layout" of plotly.js

SHOWN = 20  # classes in a table or a picture
_LABEL = 24  # characters of a label in a picture; tables have all of them
_GROUPS = 8  # that a map has colours for
_LINE, _ROW, _LOW = 60, 26, 360  # characters of a line of a hint; pixels of a bar, of a chart
# The middle of the scale is transparent, so that it suits a light page and a dark one.
_SCALE = [[0, "rgba(66,133,244,0)"], [1, "rgba(66,133,244,0.9)"]]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of strings."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def by_class(truth: Sequence[str], guess: Sequence[str], labels: Sequence[str] = ()) -> Table:
    """Return precision, recall and F1 of each class, the 20 commonest."""
    names = shown_classes(truth, guess, labels)
    columns = precision_recall_fscore_support(truth, guess, labels=names, zero_division=0)
    rows = [
        [name, f"{precision:.3f}", f"{recall:.3f}", f"{f1:.3f}", str(count)]
        for name, precision, recall, f1, count in zip(names, *columns, strict=True)
    ]
    return Table("By class", ["class", "precision", "recall", "F1", "in the data"], rows)


def measure(value: float | None) -> str:
    """Return a measure as text; what was not measured is a dash."""
    return "–" if value is None else f"{value:.3f}"


def texts_cell(texts: Sequence[str]) -> Cell:
    """Return texts, a line each."""
    return [(short("\n".join(texts)), None)]


def short(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def marked(context: str, golds: Sequence[str], guess: str) -> Cell:
    """Return the part of a context around gold and predicted answers, with both marked.

    The first place of each string is marked; where they overlap, the gold one wins.
    """
    places = []
    for text, mark in [*((gold, "right") for gold in golds), (guess, "wrong")]:
        start = context.find(text) if text else -1
        end = start + len(text)
        if start >= 0 and all(end <= left or right <= start for left, right, _ in places):
            places.append((start, end, mark))
    places.sort()
    begin = max(0, places[0][0] - _LONGEST // 4) if places else 0
    last = min(len(context), (places[-1][1] if places else begin) + _LONGEST // 4)
    pieces, position = [("… ", None)] if begin else [], begin
    for start, end, mark in places:
        pieces += [(context[position:start], None), (context[start:end], mark)]
        position = end
    return [*pieces, (context[position:last], None), *([(" …", None)] * (last < len(context)))]


def figure(title: str, data: list[dict[str, Any]], layout: dict[str, Any]) -> Figure:
    """Return a chart of traces."""
    return {"title": title, "data": data, "layout": layout}


def shown_classes(
    truth: Sequence[str], guess: Sequence[str], labels: Sequence[str] = ()
) -> list[str]:
    """Return the classes in order, or the 20 commonest if there are more."""
    counts = collections.Counter(truth)
    found = set(truth) | set(guess)
    names = list(labels) if labels else sorted(found)
    names += sorted(found - set(names))
    if len(names) > SHOWN:
        names = sorted(names, key=lambda name: -counts[name])[:SHOWN]
    return names


def confusion(truth: Sequence[str], guess: Sequence[str], labels: Sequence[str] = ()) -> Figure:
    """Draw gold and predicted classes, one each for each decision; `labels` in their order."""
    names = shown_classes(truth, guess, labels)
    # Rows sum to all gold examples of a class, also those predicted as a class not shown.
    totals = collections.Counter(truth)
    pairs = collections.Counter(zip(truth, guess, strict=True))
    counts = [[pairs[gold, other] for other in names] for gold in names]
    shares = [
        [count / max(1, totals[name]) for count in row]
        for name, row in zip(names, counts, strict=True)
    ]
    ticks = _distinct(names)
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
    return figure(f"Confusion ({SHOWN} commonest)" if more else "Confusion", [data], layout)


def bars(names: Sequence[str], counts: Mapping[str, int], measures: Mapping[str, float]) -> Figure:
    """Draw "precision/NAME" and "recall/NAME" of labels, with their counts, from the top down."""
    ticks = [f"{tick} ({counts[name]})" for tick, name in zip(_distinct(names), names, strict=True)]
    data = [
        {"type": "bar", "orientation": "h", "name": name, "y": ticks,
         "x": [measures.get(f"{name}/{label}", 0.0) for label in names]}
        for name in ("precision", "recall")
    ]  # fmt: skip
    layout = {
        "xaxis": {"range": [0, 1]},
        "yaxis": {"autorange": "reversed", "type": "category"},
        "height": max(_LOW, 120 + 1.5 * _ROW * len(names)),
    }
    return figure(f"By label, with its examples (the {len(names)} commonest)", data, layout)


def scatter(
    gold: Sequence[float],
    guess: Sequence[float],
    title: str = "Predicted and gold scores",
    across: str = "gold",
    up: str = "predicted",
    same_scale: bool = True,
) -> Figure:
    """Draw gold and predicted scores; on the same scale also the line where they are equal."""
    data: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "markers", "x": gold, "y": guess, "marker": {"opacity": 0.5}}
    ]
    if same_scale:
        line = {"color": "rgba(128,128,128,0.6)", "dash": "dash", "width": 1}
        ends = [min(*gold, *guess), max(*gold, *guess)]
        data.append({"type": "scatter", "mode": "lines", "x": ends, "y": ends, "line": line})
    axes = {"xaxis": {"title": {"text": across}}, "yaxis": {"title": {"text": up}}}
    return figure(title, data, {**axes, "showlegend": False})


def histogram(
    title: str,
    axis: str,
    groups: Mapping[str, Sequence[float]],
    limits: tuple[float, float] | None = None,
    overlay: bool = False,
) -> Figure:
    """Draw values of groups, by name; their bars stand one on the other, or `overlay`."""
    values = [value for group in groups.values() for value in group]
    low, high = limits or (min(values), max(values))
    bins = {"start": low, "end": high, "size": (high - low) / 20 or 1}
    data = [
        {"type": "histogram", "name": name, "x": group, "xbins": bins, "opacity": 0.7}
        for name, group in zip(_plain(list(groups)), groups.values(), strict=True)
    ]
    layout = {
        "barmode": "overlay" if overlay else "stack",
        "xaxis": {"title": {"text": axis}, "range": [low, high]},
    }
    return figure(title, data, layout)


def lengths(gold: Sequence[str], guess: Sequence[str]) -> Figure:
    """Draw how many words answers have; "" is none."""
    longest = 20  # words; longer answers share the last bar
    data = []
    for name, column in (("gold", gold), ("predicted", guess)):
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
    return figure("Length of answers", data, layout)


def text_map(
    title: str,
    vectors: np.ndarray,
    texts: Sequence[str],
    groups: Sequence[Any],
    pairs: bool = False,
) -> Figure:
    """Draw texts in the plane of the two principal axes of their vectors `[N, D]`.

    A point, or a line of two (`pairs`), is of a group, which has a colour, or has a number, on a
    scale. A hint has its text.
    """
    points = list(zip(plane(vectors), texts, strict=True))
    numbers = all(isinstance(group, int | float) for group in groups)
    names = ["" if numbers else str(group) for group in groups]
    common = dict(collections.Counter(names).most_common(_GROUPS))
    places: dict[str, list[int]] = collections.defaultdict(list)
    for number, name in enumerate(names):
        places[name if name in common else "others"].append(number)
    data = []
    for name, some in sorted(places.items(), key=lambda item: -len(item[1])):
        trace: dict[str, Any] = {
            "type": "scatter", "mode": "lines+markers" if pairs else "markers",
            "name": _distinct([name])[0], "x": [], "y": [], "text": [],
            "marker": {"size": 6, "opacity": 0.75}, "line": {"width": 0.7},
            "hovertemplate": "%{text}<extra></extra>",
        }  # fmt: skip
        colours = []
        for number in some:
            ends = points[2 * number : 2 * number + 2] if pairs else [points[number]]
            for (x, y), text in ends:
                trace["x"].append(x)
                trace["y"].append(y)
                trace["text"].append(_hint(text, groups[number]))
                colours.append(groups[number])
            if pairs:  # a gap in the line
                for key in ("x", "y", "text"):
                    trace[key].append(None)
                colours.append(None)
        if numbers:
            bar = {"title": {"text": "gold", "side": "right"}, "thickness": 10}
            trace["marker"] |= {"color": colours, "colorscale": "Viridis", "colorbar": bar}
            trace["line"]["color"] = "rgba(128,128,128,0.4)"
        data.append(trace)
    nothing = {"visible": False}
    layout = {"xaxis": nothing, "yaxis": nothing, "showlegend": len(places) > 1, "height": 420}
    return figure(title, data, layout)


def attention(of: str, tokens: Sequence[str], layers: Sequence[Any]) -> Figure:
    """Draw what T tokens look at, `[T, T]` of each layer, chosen by a slider; all have one scale.

    `of` is what the tokens are of, such as "mistake".
    """
    numbers = range(len(layers))
    heat = {
        "type": "heatmap",
        "zmin": 0,
        "zmax": max(share for rows in layers for row in rows for share in row),
        "hovertemplate": "%{y} looks at %{x}: %{z:.3f}<extra></extra>",
        "colorscale": [_SCALE[0], [0.2, "rgba(66,133,244,0.5)"], _SCALE[1]],
        "showscale": False,
    }
    data = [{**heat, "z": layers[n], "visible": n == numbers[-1]} for n in numbers]
    steps = [
        {"label": str(n + 1), "method": "restyle", "args": ["visible", [x == n for x in numbers]]}
        for n in numbers
    ]
    axis = {
        "tickvals": [*range(len(tokens))],
        "ticktext": _plain([shortened(token, _LABEL) for token in tokens]),
        "tickfont": {"size": 9}, "showgrid": False, "zeroline": False,
    }  # fmt: skip
    slider = {
        "steps": steps, "active": numbers[-1], "currentvalue": {"prefix": "layer "}, "y": 1,
        "yanchor": "bottom", "pad": {"b": 10}, "bgcolor": "rgba(128,128,128,0.6)",
    }  # fmt: skip
    layout = {
        "xaxis": {**axis, "tickangle": -90},
        "yaxis": {**axis, "autorange": "reversed"},
        "sliders": [slider],
        "height": max(_LOW, 220 + 14 * len(tokens)),
    }
    return figure(f"Attention in the worst short {of}, mean of the heads", data, layout)


def plane(points: np.ndarray) -> list[list[float]]:
    """Return the coordinates of points `[N, D]` on their two principal axes, `[N, 2]`.

    A single point has no axes: it is at 0.
    """
    centred = np.asarray(points, np.float64) - np.mean(points, 0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    placed = np.zeros((len(centred), 2))
    placed[:, : len(axes)] = centred @ axes[:2].T
    return np.round(placed, 4).tolist()


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names of at most 24 characters, longer ones without their middle, no two the same."""
    shown = [shortened(name, _LABEL) for name in names]
    counts, found = collections.Counter(shown), []
    for name in shown:
        found.append(name)
        if counts[name] > 1:
            number = f" ({sum(f.startswith(name) for f in found)})"
            found[-1] = name + number
    return _plain(found)


def _hint(text: str, group: Any) -> str:
    """Return what is shown beside the pointer: a text in lines, and its group."""
    text = shortened(text, 4 * _LINE)
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    shown = f"{group:.4g}" if isinstance(group, float) else str(group)
    return "<br>".join(_plain([*lines, *([] if group is None else [shown])]))


def _plain(texts: Sequence[str]) -> list[str]:
    """Return texts that plotly.js shows as they are: it reads some marks of HTML."""
    return [html.escape(text, quote=False) for text in texts]
