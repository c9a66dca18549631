"""The order of batches that are parsed at once, some slower than others."""

import time

import numpy as np
import tensorflow as tf

from tfnlp.data.shards.reading import BatchShards


class Slow(BatchShards):
    """Batches of two numbers, of which the first ones take longer to parse than those after."""

    batch_size = rows_per_epoch = 2

    def __init__(self):
        pass

    def records(self, first, per_epoch):
        numbers = tf.data.Dataset.range(first, first + 12)
        return numbers.map(tf.strings.as_string)

    def _parse(self, records, step):
        def parsed(records, step):
            time.sleep(0.05 * max(0, 3 - step))
            return records.astype(np.int64)

        return tf.numpy_function(parsed, [records, step], tf.int64), step


def test_batches_keep_their_order():
    numbers, steps = zip(*Slow().dataset(0).as_numpy_iterator(), strict=True)
    assert list(steps) == list(range(6))
    np.testing.assert_array_equal(np.concatenate(numbers), np.arange(12))
