"""Weights of classes and smoothing of labels: what a run is asked for, as numbers."""

import collections
import math
from collections.abc import Mapping
from typing import Any

BALANCED = "balanced"


def loss_settings(config: Any, spec: Any, train: list[Any]) -> dict[str, Any]:
    """Return what the loss of a run has beside the task's: nothing, where nothing was asked for.

    Returns:
        dict of `label_smoothing` and `class_weights`, a dict by class in the order of the labels.
    """
    from tfnlp.tasks.fine_tuning import SMOOTHED, WEIGHTED
    from tfnlp.tasks.task_spec import OUTPUTS

    found: dict[str, Any] = {}
    for name, kinds in (("class_weights", WEIGHTED), ("label_smoothing", SMOOTHED)):
        if getattr(config, name) and spec.output not in kinds:
            tasks = ", ".join(task for task, output in OUTPUTS.items() if output in kinds)
            raise ValueError(f"`{name}` is for {tasks}, not for {spec.task}; leave it out")
        if getattr(config, name) and spec.crf:
            raise ValueError(
                f"`{name}` can't be given with `crf`, whose loss is of whole sequences of tags; "
                "leave one of them out"
            )
    if config.label_smoothing:
        found["label_smoothing"] = config.label_smoothing
    if config.class_weights:
        found["class_weights"] = _weights(config.class_weights, spec, train)
    return found


def _weights(asked: Any, spec: Any, train: list[Any]) -> dict[str, float]:
    if asked == BALANCED:
        return balanced(spec, train)
    pairs = _pairs(asked)
    unknown = sorted(set(pairs) - set(spec.labels))
    if unknown:
        raise ValueError(
            f"`class_weights` has {unknown[0]!r}, which is not among the labels: "
            f"{', '.join(spec.labels[:10])}" + (", ..." if len(spec.labels) > 10 else "")
        )
    return {label: pairs.get(label, 1.0) for label in spec.labels}


def balanced(spec: Any, train: list[Any]) -> dict[str, float]:
    """Return `n / (K n_k)` for each of K classes, n_k of n labels: scikit-learn's "balanced".

    Of "labels" `(n - n_k) / n_k`, n_k of n examples: both decisions then count alike. A label that
    all examples have counts as if one lacked it.
    """
    counts = label_counts(spec, train)
    if spec.output == "label":
        count = len(train)
        return {n: max(1, count - counts[n]) / max(1, counts[n]) for n in spec.labels}
    total = sum(counts.values())
    # A label of a teacher may not occur, nor one of another fold; its weight is never used.
    size = len(spec.labels)
    return {label: total / (size * max(1, counts[label])) for label in spec.labels}


def label_counts(spec: Any, train: list[Any]) -> collections.Counter:
    """Return how often each class, label or tag occurs in examples."""
    if spec.output == "tag":
        return collections.Counter(tag for example in train for tag in example.tags)
    if spec.output == "label":
        return collections.Counter(label for example in train for label in example.label)
    return collections.Counter(example.label for example in train)


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
