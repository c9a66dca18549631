"""A picture of the space that sentence vectors are in."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfnlp.pictures import matplotlib_module, subplots, write_figure
from tfnlp.tasks.embed import unit_rows

_PAIRS = 200  # that are drawn as lines


def plot_space(
    examples: Sequence[Any], spaces: Mapping[str, Mapping[str, np.ndarray]], path: str | os.PathLike
) -> None:
    """Draw pairs of texts in the plane of the two largest principal components, and their cosines.

    `spaces` have for each title the vector of each text.
    """
    figure, axes = subplots(2, len(spaces), figsize=(5 * len(spaces), 8), squeeze=False)
    for (title, vectors), axis, below in zip(spaces.items(), *axes, strict=True):
        pairs = examples[:: -(-len(examples) // _PAIRS)]
        points = unit_rows([vectors[t] for example in pairs for t in example.segments[:2]])
        places = _plane(points).reshape(-1, 2, 2)  # pair, text, coordinate
        colours = _colours([example.label for example in pairs])
        for (a, b), colour in zip(places, colours, strict=True):
            axis.plot([a[0], b[0]], [a[1], b[1]], "o-", color=colour, markersize=2, linewidth=0.7)
        axis.set_title(f"{title}: {len(pairs)} pairs")
        axis.set_xticks([])
        axis.set_yticks([])
        _draw_cosines(below, examples, vectors)
    write_figure(figure, path)


def _plane(points: np.ndarray) -> np.ndarray:
    """Return the coordinates of points `[N, D]` on their two principal axes, `[N, 2]`."""
    centred = points - points.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    return centred @ axes[:2].T


def _draw_cosines(axis: Any, examples: Sequence[Any], vectors: Mapping[str, np.ndarray]) -> None:
    """Draw the cosines of pairs; of pairs alone beside those with texts of other pairs."""
    u, v = (unit_rows([vectors[e.segments[n]] for e in examples]) for n in range(2))
    cosines, others = (np.sum(u * x, 1) for x in (v, np.roll(v, len(v) // 2, axis=0)))
    labels = [example.label for example in examples]
    if isinstance(labels[0], int | float):
        axis.scatter(labels, cosines, s=4, alpha=0.4)
        axis.set_xlabel("rating")
        axis.set_ylabel("cosine")
    else:
        groups = {"pairs": cosines, "other texts": others}
        if labels[0] is not None:
            names = np.array(labels)
            groups = {name: cosines[names == name] for name in sorted(set(labels))}
        axis.hist(list(groups.values()), bins=30, label=list(groups), histtype="step", density=True)
        axis.set_xlabel("cosine")
        axis.legend()
    axis.grid(alpha=0.3)


def _colours(labels: list) -> list[Any]:
    if labels[0] is None:
        return ["tab:blue"] * len(labels)
    if isinstance(labels[0], str):
        names = sorted(set(labels))
        return [f"C{names.index(label)}" for label in labels]
    low, high = min(labels), max(labels)
    viridis = matplotlib_module().colormaps["viridis"]
    return [viridis((label - low) / ((high - low) or 1)) for label in labels]
