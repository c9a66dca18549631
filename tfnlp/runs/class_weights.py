"""Weights of classes and smoothing of labels: what a run is asked for, as numbers."""

import math
from collections.abc import Mapping
from typing import Any

BALANCED = "balanced"


def loss_settings(config: Any, task: Any, train: list[Any]) -> dict[str, Any]:
    """Return what the loss of a run has beside the task's: nothing, where nothing was asked for.

    Returns:
        dict of `label_smoothing` and `class_weights`, a dict by class in the order of the labels.
    """
    found: dict[str, Any] = {}
    for name in ("class_weights", "label_smoothing"):
        if getattr(config, name) and task.crf:
            raise ValueError(
                f"`{name}` can't be given with `crf`, whose loss is of whole sequences of tags; "
                "leave one of them out"
            )
    if config.label_smoothing:
        found["label_smoothing"] = config.label_smoothing
    if config.class_weights:
        found["class_weights"] = _weights(config.class_weights, task, train)
    return found


def _weights(asked: Any, task: Any, train: list[Any]) -> dict[str, float]:
    if asked == BALANCED:
        return task.balanced(train)
    pairs = _pairs(asked)
    unknown = sorted(set(pairs) - set(task.labels))
    if unknown:
        raise ValueError(
            f"`class_weights` has {unknown[0]!r}, which is not among the labels: "
            f"{', '.join(task.labels[:10])}" + (", ..." if len(task.labels) > 10 else "")
        )
    return {label: pairs.get(label, 1.0) for label in task.labels}


def _pairs(asked: Any) -> dict[str, float]:
    """Return weights by class of "LABEL=WEIGHT,..." or of a dict."""
    if isinstance(asked, str):
        parts = [part.rpartition("=") for part in asked.split(",")]
        pairs = {label.strip(): weight for label, _, weight in parts}
        if not all(pairs) or len(pairs) < len(parts):
            raise _wrong(asked)
    elif isinstance(asked, Mapping):
        pairs = {str(label): weight for label, weight in asked.items()}
    else:
        raise _wrong(asked)
    try:
        found = {label: float(weight) for label, weight in pairs.items()}
    except (TypeError, ValueError):
        raise _wrong(asked) from None
    if not all(math.isfinite(weight) and weight > 0 for weight in found.values()):
        raise _wrong(asked)
    return found


def _wrong(asked: Any) -> ValueError:
    return ValueError(
        f"`class_weights` {asked!r:.100} must be {BALANCED}, or LABEL=WEIGHT,... (in Python also a "
        "dict) with each label once and weights above 0"
    )
