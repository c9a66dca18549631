"""Each replica's share of the global batches."""

import tensorflow as tf

from tfnlp.training.step import split_rows


def split_batch(strategy, batch):
    """One global batch, a dict of `[B, ...]`, as one value a replica `[B/replicas, ...]`."""
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return batch

    def share(context):
        i = context.replica_id_in_sync_group
        return {k: tf.split(v, replicas)[i] for k, v in batch.items()}

    return strategy.experimental_distribute_values_from_function(share)


def distribute(strategy, data, first_step):
    """`data.dataset(first_step)`, each of its global batches as one value a replica."""
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return data.dataset(first_step)

    def per_worker(context):
        # Consecutive elements go to consecutive replicas of this worker.
        local = replicas // context.num_input_pipelines
        start = context.input_pipeline_id * local

        @tf.autograph.experimental.do_not_convert
        def shares(batch):
            return {
                k: split_rows(v, replicas)[start : start + local] for k, v in batch.items()
            }  # [local, B/replicas, ...]

        return data.dataset(first_step).map(shares).unbatch().prefetch(2)

    return strategy.distribute_datasets_from_function(per_worker)
