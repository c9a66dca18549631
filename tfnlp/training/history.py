"""The measurements of a run; part of every checkpoint, so that a resumed run keeps them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

Row = dict[str, Any]

# Parts of the names of held-out values of which larger is better.
_LARGER_IS_BETTER = tuple(
    "accuracy auc f1 exact matthews mrr ndcg pearson spearman precision recall".split()
)


class History:
    """Rows of training means and of held-out means, each a dict with its `step`.

    `pending` has the sums of the steps since the last training row.
    """

    def __init__(
        self,
        train: Iterable[Row] = (),
        validation: Iterable[Row] = (),
        pending: Mapping[str, float] | None = None,
    ) -> None:
        self.train, self.validation = list(train), list(validation)
        self.pending = dict(pending or {})

    def state(self) -> dict[str, Any]:
        """Return the constructor arguments, as JSON can hold them."""
        return {"train": self.train, "validation": self.validation, "pending": self.pending}

    def add(self, totals: Mapping[str, float]) -> None:
        """Add the sums of some steps to the pending row."""
        for name, value in totals.items():
            self.pending[name] = self.pending.get(name, 0.0) + value

    def flush(self, step: int) -> Row:
        """End the pending row and return it."""
        row = means(self.pending)
        self.train.append({"step": step, **row})
        self.pending = {}
        return row

    def add_validation(self, step: int, logs: Mapping[str, float]) -> None:
        """Add a row of held-out means."""
        self.validation.append({"step": step, **logs})

    def best_step(self, monitor: str) -> int | None:
        """Return the step of the best held-out `monitor`, the first of equal ones; or None.

        Larger is better for names that hold "accuracy", "f1", "exact", "matthews", "pearson",
        "spearman", "precision", "recall", "auc", "mrr" or "ndcg", smaller for all others; NaN is
        worst. Evaluations without the measure don't count.
        """
        rows = self._rows(monitor)
        if not rows:
            return None
        sign = -1.0 if any(part in monitor for part in _LARGER_IS_BETTER) else 1.0

        def order(row: Row) -> tuple[float, int]:
            value = sign * row[monitor]
            return (math.inf if math.isnan(value) else value, row["step"])

        return min(rows, key=order)["step"]

    def stopped_early(self, monitor: str, patience: int | None) -> bool:
        """Return whether none of the last `patience` evaluations was better."""
        steps = [row["step"] for row in self._rows(monitor)]
        if patience is None or not steps:
            return False
        return len(steps) - 1 - steps.index(self.best_step(monitor)) >= patience

    def _rows(self, monitor: str) -> list[Row]:
        rows = [row for row in self.validation if monitor in row]
        names = sorted({name for row in self.validation for name in row} - {"step"})
        if names and not rows:
            raise ValueError(f"monitor={monitor!r} was not measured; choose one of {names}")
        return rows


def means(totals: Mapping[str, float]) -> dict[str, float]:
    """Return means from summed totals: `loss`, `NAME_loss`, metrics, `learning_rate`, ...

    What had no targets is left out.
    """
    logs, losses = {}, []
    for key, value in totals.items():
        kind, _, rest = key.partition("/")
        name, _, target = rest.partition("/")
        count = totals.get(f"count/{target or name}")
        if kind == "sum":
            logs[rest] = value / totals["steps"]
        elif kind == "metric" and count:
            logs[name] = value / count
        elif kind == "loss" and count:
            logs[f"{name}_loss"] = value / count
            losses.append(value / count)
    return {"loss": sum(losses), **logs} if losses else logs


def without_targets(totals: Mapping[str, float]) -> list[str]:
    """Return the names of the targets that summed totals have none of."""
    return [key.partition("/")[2] for key, n in totals.items() if key[:6] == "count/" and not n]
