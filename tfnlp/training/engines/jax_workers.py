"""The processes that `jax.distributed` connects."""

from __future__ import annotations

import jax
import numpy as np


class JaxWorkers:
    """The interface of `tfnlp.training.Workers`, for the processes that JAX knows."""

    def __init__(self) -> None:
        self.count, self.index = jax.process_count(), jax.process_index()

    @property
    def chief(self) -> bool:
        """Whether this process writes checkpoints and shows progress."""
        return self.index == 0

    def gather(self, *numbers: int) -> np.ndarray:
        """Return the integers that every worker passes: int64 `[count, len(numbers)]`.

        All workers must call it, and none returns before all have.
        """
        rows = np.asarray([numbers], "int64")
        if self.count == 1:
            return rows
        from jax.experimental import multihost_utils

        # JAX has 32-bit numbers alone: the halves go separately.
        halves = rows.view("int32")
        return np.asarray(multihost_utils.process_allgather(halves[0])).view("int64")

    def lost(self, error: Exception) -> Exception | None:
        """Return a clear error for one that a lost worker caused; None for any other."""
        return None
