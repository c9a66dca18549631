"""Graphs of trainings, predictions and loaded models are freed with them."""

import collections
import concurrent.futures
import gc
import random
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import FuncGraph

import tfnlp
from tests.support import golden
from tests.training.mixed_batches_test import data_of, task_of
from tfnlp import training
from tfnlp.hub.loading.saved_model import load_module
from tfnlp.training.graph_memory import freed_after_tracing
from tfnlp.training.prediction import forward

TEXTS = ["The ship was never seen again.", "red", "A cat sat on the mat of the dog. " * 3]


def collected():
    """The objects that are in memory."""
    for _ in range(4):  # what a collection finalizes may hold more
        gc.collect()
    return gc.get_objects()


def graphs():
    """The graphs of functions that are in memory."""
    return sum(isinstance(found, FuncGraph) for found in collected())


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_modules_are_freed_with_their_gradients(tmp_path):
    module = tf.Module()
    module.f = tf.function(lambda x: tripled(x), input_signature=[tf.TensorSpec([], "float32")])
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    tf.saved_model.save(module, str(tmp_path / "saved"), options=options)
    before = len(ops.gradient_registry._registry)
    one, other = load_module(tmp_path / "saved"), load_module(tmp_path / "saved")
    graph = weakref.ref(one.f.concrete_functions[0].graph)
    assert len(ops.gradient_registry._registry) == before + 2
    del one
    collected()
    assert graph() is None
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:  # of the module that is still there
        tape.watch(x)
        y = other.f(x)
    assert float(tape.gradient(y, x)) == 3.0
    del other
    collected()
    assert len(ops.gradient_registry._registry) == before


USES = {
    "run": lambda made: tfnlp.load(made("bert").run).embed(TEXTS),
    "task": lambda made: tfnlp.load(made("bert").task).predict(TEXTS),
    "module": lambda made: tfnlp.load(made("bert").module)(TEXTS),
    "encoder": lambda made: tfnlp.load(made("bert").exported)(TEXTS),
    "checkpoint": lambda made: tfnlp.load(golden("bert_xsmall_dummy_pt"))(TEXTS),
    "word vectors": lambda made: tfnlp.load(made("word2vec").run).embed(TEXTS),
}


@pytest.mark.slow
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_models_that_are_loaded_used_and_dropped_leave_nothing(use, made):
    def living():
        kinds = (tf.Graph, tf.Variable, keras.Variable, keras.layers.Layer, tf.Module)
        found = collections.Counter()
        for x in collected():
            kind = type(x)  # some objects lie about their class
            if issubclass(kind, kinds) or str(kind.__module__).startswith("tfnlp."):
                found[kind.__name__] += 1
        return found, len(ops.gradient_registry._registry)

    use(made)  # what is made once
    before = living()
    for _ in range(3):
        use(made)
    assert living() == before


@pytest.mark.slow
def test_texts_of_all_lengths_in_eight_threads_trace_nothing(made, monkeypatch):
    run, task = tfnlp.load(made("bert").run), tfnlp.load(made("bert").task)
    words = made("bert").train.read_text(encoding="utf-8").split()
    traced = []

    def use(seed):
        draw = random.Random(seed)
        for _ in range(5):
            count = draw.randint(1, 12)
            texts = [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(count)]
            vectors, found = run.embed(["red", *texts]), task.predict(["red", *texts])
        return vectors[0], list(found[0]["probabilities"].values())

    make = FuncGraph.__init__

    def counted(self, *args, **kwargs):
        traced.append(args)
        make(self, *args, **kwargs)

    monkeypatch.setattr(FuncGraph, "__init__", counted)
    use(0)
    assert traced
    traced.clear()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(use, range(16)))
    assert not traced
    for vector, probabilities in answers:
        np.testing.assert_allclose(vector, answers[0][0], atol=1e-5)
        np.testing.assert_allclose(probabilities, answers[0][1], atol=1e-5)
