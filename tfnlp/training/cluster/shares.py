"""The share of each replica in the global batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfnlp.training.batches import StepData
from tfnlp.training.step import split_rows


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
