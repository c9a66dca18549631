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


def baselines(task: str, golds: Sequence[Any], names: Sequence[str] = ()) -> dict[str, Baseline]:
    """Return for each measure of a task the best that one answer for all examples reaches.

    Measures that are 0 for every such answer are left out, as the correlations of scores and the
    F1 of entities are.

    Args:
        task: "classify", "labels", "similarity", "choose", "answer", "tag" or "roles".
        golds: the label of each example: a string of "classify", strings of "labels", "tag" and
            "roles", answers (none: there is no answer) of "answer", a number of the others.
        names: all classes of "classify" in order; the second of two is the positive one.
    """
    if task == "similarity":
        mean = sum(map(float, golds)) / len(golds)
        error = sum((float(gold) - mean) ** 2 for gold in golds) / len(golds)
        return {"mse": Baseline(error, f"always the mean {mean:.4g}")}
    if task == "answer":
        share = 100.0 * sum(not answers for answers in golds) / len(golds)
        never = Baseline(share, "never an answer")
        return {"exact_match": never, "f1": never} if share else {}
    if task == "labels":
        return _of_sets(golds)
    if task in ("tag", "roles"):
        golds = [tag for tags in golds for tag in tags]
        return {"accuracy": _commonest(golds)}
    if task == "choose":
        first = _commonest(golds)
        choice = collections.Counter(golds).most_common(1)[0][0] + 1
        return {"accuracy": dataclasses.replace(first, guess=f"always choice {choice}")}
    return _of_classes(golds, names)


def _commonest(golds: Sequence[Any]) -> Baseline:
    value, count = collections.Counter(golds).most_common(1)[0]
    return Baseline(count / len(golds), f"always {_quoted(value)}")


def _of_classes(golds: Sequence[str], names: Sequence[str]) -> dict[str, Baseline]:
    """Return accuracy and F1; of two classes F1 is that of the second, see `classification`."""
    counts = collections.Counter(golds)
    value, most = counts.most_common(1)[0]
    mean = _f1(most, len(golds)) / len(counts)  # the others have F1 0
    found = {"accuracy": _commonest(golds), "f1": Baseline(mean, f"always {_quoted(value)}")}
    if len(names) == 2:
        found["f1_macro"] = found["f1"]
        positive = _f1(counts[names[1]], len(golds))
        found["f1"] = Baseline(positive, f"always {_quoted(names[1])}")
    return found


def _f1(held: int, count: int) -> float:
    """Return F1 of an answer that `held` of `count` examples have: P = held / count, R = 1."""
    return 2 * held / (held + count)


def _of_sets(golds: Sequence[Sequence[str]]) -> dict[str, Baseline]:
    """Return the commonest set's share, and the micro F1 of the commonest label."""
    (chosen, count), *_ = collections.Counter(tuple(sorted(g)) for g in golds).most_common(1)
    single = collections.Counter(label for labels in golds for label in labels)
    every = ", ".join(map(_quoted, chosen)) or "no label"
    found = {"subset_accuracy": Baseline(count / len(golds), f"always {every}")}
    if single:
        label, held = single.most_common(1)[0]
        f1 = 2 * held / (len(golds) + single.total())
        found["micro_f1"] = Baseline(f1, f"always {_quoted(label)}")
    return found


def _quoted(label: Any) -> str:
    return f"'{shortened(str(label), _LONGEST)}'"


def shown_baseline(found: Mapping[str, Baseline], metric: str) -> str:
    """Return the baseline of a measure, or of the first that has one, as text; "" if none has."""
    if not found:
        return ""
    name = metric if metric in found else next(iter(found))
    return f"baseline: {found[name].guess}  {name} {found[name].value:.4f}"
