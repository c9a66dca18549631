"""The simplest guess, the same answer for every example: its measures, and who is no better."""

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


def plateau_of(
    task: Any,
    examples: Sequence[Any],
    predictions: Sequence[Any],
    measures: Mapping[str, float],
    metric: str,
) -> str:
    """Return in words that a model of a task has learnt nothing; "" of one that has.

    Then it gives one answer for different examples, or is no better than the simplest guess, unless
    that is right for all of them.
    """
    if metric not in measures:
        return ""
    right, value = [task.perfect(example) for example in examples], measures[metric]
    answers = task.distinct_answers(predictions)
    if len(answers) == 1 < len(task.distinct_answers(right)):
        return f"every prediction is {quoted(*answers)} ({metric} {value:.4f})"
    best = task.measures(examples, right)[metric]
    guess = task.baselines(task.golds(examples)).get(metric, Baseline(0.0, "one answer for all"))
    if best == guess.value or (value - guess.value) * (best - guess.value) > 0:
        return ""
    return (
        f"{metric} {value:.4f} is not better than {guess.value:.4f}, that of the simplest guess "
        f"({guess.guess})"
    )
