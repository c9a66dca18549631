"""The order of batches that are parsed at once, while the first one waits."""

import threading

import numpy as np
import tensorflow as tf

from tfnlp.data.shards.reading import BatchShards


class Overtaken(BatchShards):
    """Batches of two numbers; the first waits for whether another one comes before it."""

    batch_size = rows_per_epoch = 2

    def __init__(self):
        self.came = threading.Event()

    def records(self, first, per_epoch):
        numbers = tf.data.Dataset.range(first, first + 12)
        return numbers.map(tf.strings.as_string)

    def _parse(self, records, step):
        def parsed(records, step):
            if step == 0:
                self.came.wait(0.5)
            return records.astype(np.int64)

        return tf.numpy_function(parsed, [records, step], tf.int64), step


def test_batches_keep_their_order():
    shards, batches = Overtaken(), []
    for batch in shards.dataset(0).as_numpy_iterator():
        shards.came.set()
        batches.append(batch)
    numbers, steps = zip(*batches, strict=True)
    assert list(steps) == list(range(6))
    np.testing.assert_array_equal(np.concatenate(numbers), np.arange(12))
