"""Training data as batches that begin at a given step, and the share of each replica in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tfnlp.objectives import Objective
from tfnlp.optional_tensorflow import tf


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

    A dataset starts at its first batch whatever the step, and is repeated if it ends. The objective
    makes dicts of the batches.

    Attributes:
        batch_size: rows of a global batch; None if they vary.
    """

    def __init__(self, data: StepData | tf.data.Dataset, objective: Objective) -> None:
        self._objective = objective
        if isinstance(data, tf.data.Dataset):
            if data.cardinality() == 0:
                raise ValueError("data is a tf.data.Dataset without a batch")
            self._from: Callable[[int], tf.data.Dataset] = lambda step: data.repeat()
            shape = next(iter(objective.as_dict(data.element_spec).values())).shape
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
            self._objective.as_dict(dataset.element_spec)  # checks the keys
            return dataset

        @tf.autograph.experimental.do_not_convert
        def as_dict(*parts: Any) -> dict[str, tf.Tensor]:
            return self._objective.as_dict(parts if len(parts) > 1 else parts[0])

        return dataset.map(as_dict)


def split_batch(strategy: tf.distribute.Strategy, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Split a global batch, a dict of `[B, ...]`, into one `[B/replicas, ...]` for each replica."""
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return batch

    def share(context: Any) -> dict[str, tf.Tensor]:
        i = context.replica_id_in_sync_group
        return {k: tf.split(v, replicas)[i] for k, v in batch.items()}

    return strategy.experimental_distribute_values_from_function(share)


def distribute(
    strategy: tf.distribute.Strategy, data: StepData, first_step: int
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    """Return `data.dataset(first_step)`, each global batch split into one value a replica."""
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return data.dataset(first_step)

    def per_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        # Consecutive elements go to consecutive replicas of this worker.
        local = replicas // context.num_input_pipelines
        start = context.input_pipeline_id * local

        @tf.autograph.experimental.do_not_convert
        def shares(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            return {
                k: split_rows(v, replicas)[start : start + local] for k, v in batch.items()
            }  # [local, B/replicas, ...]

        return data.dataset(first_step).map(shares).unbatch().prefetch(2)

    return strategy.distribute_datasets_from_function(per_worker)


def split_rows(x: tf.Tensor, parts: int) -> tf.Tensor:
    """Return `[B, ...]` as `[parts, B/parts, ...]`; other axes may have unknown lengths."""
    size = None if x.shape[0] is None else x.shape[0] // parts
    split = tf.reshape(x, tf.concat([[parts, -1], tf.shape(x)[1:]], 0))
    return tf.ensure_shape(split, [parts, size, *x.shape[1:]])
