"""The one process that trains with JAX."""

from __future__ import annotations

import numpy as np


class JaxWorkers:
    """The interface of `tfnlp.training.Workers`, for one process."""

    count, index, chief = 1, 0, True

    def gather(self, *numbers: int) -> np.ndarray:
        """Return the integers that every worker passes: int64 `[1, len(numbers)]`."""
        return np.asarray([numbers], "int64")

    def lost(self, error: Exception) -> None:
        """Return None: there is no other worker to lose."""
