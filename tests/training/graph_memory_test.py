"""Graphs of trainings and predictions are freed with them."""

import gc

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from tests.training.mixed_batches_test import data_of, task_of
from tfnlp import training
from tfnlp.training.graph_memory import freed_after_tracing
from tfnlp.training.prediction import forward

pytestmark = pytest.mark.slow


def graphs():
    """The graphs of functions that are in memory."""
    gc.collect()
    return sum(isinstance(found, FuncGraph) for found in gc.get_objects())


def test_a_training_and_its_predictions_leave_no_graph():
    before = graphs()
    task = task_of("class")
    trainer = training.Trainer(task, training.AdamW(), 1e-3, accumulation=4)
    trainer.fit(data_of("class", mixed=True), 2, progress=False)
    model = task.model
    batch = {name: np.zeros((2, 4), x.dtype) for name, x in model.input.items()}
    assert forward(model, ["class_logits"])(batch)["class_logits"].shape[0] == 2
    del trainer, task, model
    assert graphs() <= before  # graphs of earlier tests may be freed meanwhile


@tf.custom_gradient
def tripled(x):
    return x * 1.0, lambda upstream: 3.0 * upstream


def test_gradients_of_other_graphs_stay():
    """One that is traced meanwhile, as by another thread, is differentiated afterwards."""
    other, found = tf.Graph(), []

    @tf.function
    def inner(x):
        with freed_after_tracing():
            with other.as_default():
                y = tf.constant(1.0)
                found.extend([tripled(y), y])
            with tf.GradientTape() as tape:
                tape.watch(x)
                z = tripled(x)
            return tape.gradient(z, x)

    assert float(inner(tf.constant(2.0))) == 3.0
    with other.as_default():
        (gradient,) = tf.gradients(*found)
    with tf.compat.v1.Session(graph=other) as session:
        assert session.run(gradient) == 3.0
