"""Measures of the simplest guess: the same answer for every example."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tfnlp.text.lines import shortened

_LONGEST = 24  # characters of a label


@dataclasses.dataclass(frozen=True)
class Baseline:
    """What a guess that reads no text reaches; it is told in words, such as "always 'positive'"."""

    value: float
    guess: str


def commonest(golds: Sequence[Any]) -> Baseline:
    """Return the accuracy of the commonest label."""
    value, count = collections.Counter(golds).most_common(1)[0]
    return Baseline(count / len(golds), f"always {quoted(value)}")


def f1_of_one(held: int, count: int) -> float:
    """Return F1 of an answer that `held` of `count` examples have: P = held / count, R = 1."""
    return 2 * held / (held + count)


def quoted(label: Any) -> str:
    """Return a label in quotation marks, a long one without its middle."""
    return f"'{shortened(str(label), _LONGEST)}'"


def shown_baseline(found: Mapping[str, Baseline], metric: str) -> str:
    """Return the baseline of a measure, or of the first that has one, as text; "" if none has."""
    if not found:
        return ""
    name = metric if metric in found else next(iter(found))
    return f"baseline: {found[name].guess}  {name} {found[name].value:.4f}"
