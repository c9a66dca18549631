"""Training data as batches that begin at a given step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import tensorflow as tf

if TYPE_CHECKING:
    from tfnlp.objectives import Objective


class StepData(Protocol):
    """Training data whose batches are a pure function of the step.

    Attributes:
        batch_size: rows of a global batch.
    """

    batch_size: int

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return the global batches of the steps from `first_step` on."""
        ...


class Batches:
    """Batches as dicts of tensors, from `StepData` or from a `tf.data.Dataset` of global batches.

    A dataset starts at its first batch whatever the step, and is repeated if it ends. The task
    makes dicts of the batches.

    Attributes:
        batch_size: rows of a global batch; None if they vary.
    """

    def __init__(self, data: StepData | tf.data.Dataset, task: Objective) -> None:
        self._task = task
        if isinstance(data, tf.data.Dataset):
            if data.cardinality() == 0:
                raise ValueError("data is a tf.data.Dataset without a batch")
            self._from: Callable[[int], tf.data.Dataset] = lambda step: data.repeat()
            shape = next(iter(task.as_dict(data.element_spec).values())).shape
            self.batch_size = shape[0] if shape.rank else None
        elif callable(getattr(data, "dataset", None)) and hasattr(data, "batch_size"):
            self._from, self.batch_size = data.dataset, data.batch_size
        else:
            raise ValueError(
                "data must be a tf.data.Dataset of batches, or an object with `batch_size` and "
                f"`dataset(first_step)`, not {type(data).__name__}"
            )

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return the global batches of the steps from `first_step` on."""
        dataset = self._from(first_step)
        if isinstance(dataset.element_spec, dict):
            self._task.as_dict(dataset.element_spec)  # checks the keys
            return dataset

        @tf.autograph.experimental.do_not_convert
        def as_dict(*parts: Any) -> dict[str, tf.Tensor]:
            return self._task.as_dict(parts if len(parts) > 1 else parts[0])

        return dataset.map(as_dict)
