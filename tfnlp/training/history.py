"""What was measured during a run; part of every checkpoint, so that a resumed run keeps it."""

import math

from tfnlp.training.step import means

# What a held-out value's name holds where more of it is better.
_BIGGER_IS_BETTER = (
    "accuracy", "f1", "exact", "matthews", "pearson", "spearman", "precision", "recall"
)


class History:
    """Rows of training means and of held-out means, each a dict with its `step`.

    Args:
        train, validation: rows so far.
        pending: sums of the steps since the last training row.
    """

    def __init__(self, train=(), validation=(), pending=None):
        self.train, self.validation = list(train), list(validation)
        self.pending = dict(pending or {})

    def state(self):
        """A JSON-able dict of constructor arguments."""
        return {"train": self.train, "validation": self.validation, "pending": self.pending}

    def add(self, totals):
        """Adds the sums of some steps to the row that is being gathered."""
        for name, value in totals.items():
            self.pending[name] = self.pending.get(name, 0.0) + value

    def flush(self, step):
        """Ends the row that is being gathered; returns it."""
        row = means(self.pending)
        self.train.append({"step": step, **row})
        self.pending = {}
        return row

    def add_validation(self, step, logs):
        """Adds a row of held-out means."""
        self.validation.append({"step": step, **logs})

    def best_step(self, monitor):
        """The step of the best held-out `monitor`, or None; of equals, the first.

        Larger is better for names that hold "accuracy", "f1", "exact", "matthews", "pearson",
        "spearman", "precision" or "recall", smaller for all others; NaN is worst.
        """
        rows = self._rows(monitor)
        if not rows:
            return None
        sign = -1.0 if any(part in monitor for part in _BIGGER_IS_BETTER) else 1.0

        def order(row):
            value = sign * row[monitor]
            return (math.inf if math.isnan(value) else value, row["step"])

        return min(rows, key=order)["step"]

    def stopped_early(self, monitor, patience):
        """Whether the last `patience` evaluations brought nothing better."""
        if patience is None or not self.validation:
            return False
        steps = [row["step"] for row in self._rows(monitor)]
        return len(steps) - 1 - steps.index(self.best_step(monitor)) >= patience

    def _rows(self, monitor):
        if self.validation and monitor not in self.validation[0]:
            names = sorted(set(self.validation[0]) - {"step"})
            raise ValueError(f"monitor={monitor!r} was not measured; choose one of {names}")
        return self.validation
