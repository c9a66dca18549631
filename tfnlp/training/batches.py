"""Training data as batches that begin at a given step, and the share of each replica in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from tfnlp.objectives import Objective
from tfnlp.optional_tensorflow import is_tf_dataset, tf


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
    """Global batches as dicts, from any of the kinds of data that `Trainer.fit` takes.

    The objective makes dicts of the batches.

    Attributes:
        batch_size: rows of a global batch; None if they vary.
        exact: whether the batches of a step are the same after a restart.
    """

    def __init__(self, data: Any, objective: Objective) -> None:
        self._objective, self._data, self.exact = objective, data, True
        self._arrays: Callable[[int], Iterator[Any]] | None = None
        if is_tf_dataset(data):
            if data.cardinality() == 0:
                raise ValueError("data is a tf.data.Dataset without a batch")
            shape = next(iter(objective.as_dict(data.element_spec).values())).shape
            self.batch_size, self.exact = shape[0] if shape.rank else None, False
        elif callable(getattr(data, "dataset", None)) and hasattr(data, "batch_size"):
            self.batch_size = data.batch_size
        elif callable(data):
            self._arrays = lambda step: map(data, itertools.count(step))
            self.batch_size = len(next(iter(self._as_dict(data(0)).values())))
        elif isinstance(data, Iterator):
            first = next(data, None)
            if first is None:
                raise ValueError("data is an iterator without a batch")
            rest = itertools.chain([first], data)
            self._arrays, self.exact = lambda step: rest, False
            self.batch_size = len(next(iter(self._as_dict(first).values())))
        else:
            raise ValueError(
                "data must be a function of the step that returns a batch, an iterator of batches, "
                "a tf.data.Dataset of them, or an object with `batch_size` and "
                f"`dataset(first_step)`, not {type(data).__name__}"
            )

    def arrays(self, first_step: int = 0) -> Iterator[dict[str, np.ndarray]]:
        """Return the global batches of the steps from `first_step` on as arrays of numpy."""
        if self._arrays is None:
            return self.dataset(first_step).as_numpy_iterator()
        return map(self._as_dict, self._arrays(first_step))

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return the global batches of the steps from `first_step` on."""
        if self._arrays is not None:
            batches = self.arrays(first_step)
            first = next(batches)
            specs = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in first.items()}
            rest = itertools.chain([first], batches)
            return tf.data.Dataset.from_generator(lambda: rest, output_signature=specs)
        data = self._data
        dataset = data.repeat() if is_tf_dataset(data) else data.dataset(first_step)
        if isinstance(dataset.element_spec, dict):
            self._objective.as_dict(dataset.element_spec)  # checks the keys
            return dataset

        @tf.autograph.experimental.do_not_convert
        def as_dict(*parts: Any) -> dict[str, tf.Tensor]:
            return self._objective.as_dict(parts if len(parts) > 1 else parts[0])

        return dataset.map(as_dict)

    def _as_dict(self, batch: Any) -> dict[str, np.ndarray]:
        return {name: np.asarray(x) for name, x in self._objective.as_dict(batch).items()}


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
    strategy: tf.distribute.Strategy, data: Batches, first_step: int
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
