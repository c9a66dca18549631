"""Thresholds of labels: from which probability on each label is predicted."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfnlp.tasks.task_spec import TaskSpec

Predictions = list[dict[str, Any]]


def best_threshold(gold: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the threshold with the best F1 of a label, `F1 = 2 tp / (predicted + gold)`.

    All sets that a threshold can choose are compared. The threshold lies halfway between the
    probabilities on either side of it. It is 0.5 if none is better, and of several the nearest
    to 0.5.

    Args:
        gold: bool `[N]`, which examples have the label.
        probabilities: float32 `[N]`.
    """
    order = np.argsort(-probabilities, kind="stable")
    p, found = probabilities[order].astype(np.float32), np.cumsum(gold[order])
    f1 = 2 * found / (np.arange(1, len(p) + 1) + gold.sum())
    below = np.append(p[1:], 0.0).astype(np.float32)
    middle = ((p.astype(np.float64) + below) / 2).astype(np.float32)
    thresholds = np.where(middle > below, middle, p)  # neighbours have no number between them
    f1[p == below] = -1  # equal probabilities are chosen together
    half = probabilities >= 0.5
    at_half = 2 * (gold & half).sum() / max(1, gold.sum() + half.sum())
    if not gold.any() or at_half >= f1.max():
        return 0.5
    best = thresholds[f1 == f1.max()]
    return float(best[np.abs(best - 0.5).argmin()])


def tuned(
    spec: TaskSpec, examples: Sequence[Any], predictions: Sequence[Mapping[str, Any]]
) -> tuple[TaskSpec, Predictions]:
    """Return the task with the thresholds that are best on examples, and predictions with these.

    Of other tasks than "labels" both are returned as they are.
    """
    if spec.task != "labels":
        return spec, list(predictions)
    names = spec.labels
    gold = np.array([[name in e.label for name in names] for e in examples])  # [N, K]
    p = np.array([[row["probabilities"][n] for n in names] for row in predictions], np.float32)
    spec = dataclasses.replace(
        spec, thresholds=tuple(best_threshold(gold[:, k], p[:, k]) for k in range(len(names)))
    )
    chosen = [
        [n for n, yes in zip(names, row, strict=True) if yes]
        for row in p >= np.float32(spec.thresholds)
    ]
    return spec, [{**row, "labels": x} for row, x in zip(predictions, chosen, strict=True)]
