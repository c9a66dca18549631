"""One of two workers that train a `tfnlp.hub.Layer` together: `worker.py MODULE OUTPUT`."""

import sys

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else runs

import keras  # noqa: E402

from tfnlp import hub  # noqa: E402

IDS = tf.constant([[0, 1, 2], [5, 5, 0]])

with strategy.scope():
    ids = keras.Input((3,), dtype="int32")
    layer = hub.Layer(sys.argv[1], trainable=True)
    model = keras.Model(ids, layer(ids))
    optimizer = keras.optimizers.SGD(1e-4)
    optimizer.build(model.trainable_variables)


def replica(ids):
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(ids, training=True))) + sum(model.losses)
        loss = loss / strategy.num_replicas_in_sync
    optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)


step = tf.function(lambda ids: strategy.run(replica, args=(ids,)))
data = tf.data.Dataset.from_tensor_slices(IDS).batch(2).repeat(2)
for batch in strategy.experimental_distribute_dataset(data):
    step(batch)
np.savez(sys.argv[2], *[v.numpy() for v in layer.variables])
