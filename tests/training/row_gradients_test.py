"""Gradients that stay rows: row-wise Adagrad, and training steps of word2vec."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.toy import assert_same, two_replicas
from tfnlp import models, objectives, training
from tfnlp.data import WordBlocks, WordCorpus
from tfnlp.training.engines.tensorflow import sum_rows

RATE = 0.3


def adagrad(table, gradients, start):
    """The formula, in float64, with dense gradients."""
    table, a = table.astype("float64"), np.full((len(table), 1), start)
    for g in gradients:
        a += (g**2).mean(1, keepdims=True)
        table = table - RATE * g / np.sqrt(a)
    return table, a


@pytest.mark.parametrize("rows", [True, False])
def test_rowwise_adagrad_is_the_formula(rows):
    rng = np.random.default_rng(0)
    variable = keras.Variable(rng.normal(size=(6, 3)).astype("float32"), name="table")
    before = variable.numpy()
    optimizer = training.RowwiseAdagrad(initial_accumulator=0.5)
    optimizer.build([variable])
    dense = []
    for step in range(4):
        ids = np.array([5, 0, 5, 2, 5])  # the same row several times; some rows never
        values = rng.normal(size=(5, 3)).astype("float32")
        gradient = np.zeros((6, 3))
        np.add.at(gradient, ids, values)
        dense.append(gradient)
        slices = sum_rows(tf.IndexedSlices(tf.constant(values), tf.constant(ids), [6, 3]))
        assert slices.indices.numpy().tolist() == [5, 0, 2]
        np.testing.assert_allclose(tf.convert_to_tensor(slices), gradient, rtol=1e-5, atol=1e-6)
        given = slices if rows else tf.constant(gradient, "float32")
        optimizer.apply([given], tf.constant(RATE), tf.constant(step))
    table, accumulator = adagrad(before, dense, 0.5)
    np.testing.assert_allclose(variable, table, rtol=1e-5, atol=1e-5)
    (slot,) = optimizer.slots.values()
    np.testing.assert_allclose(slot, accumulator, rtol=1e-5)
    np.testing.assert_array_equal(variable.numpy()[[1, 3, 4]], before[[1, 3, 4]])


def test_other_ranks_have_rows_too():
    variable = keras.Variable(np.zeros((2, 2, 3), "float32"), name="cube")
    bias = keras.Variable(np.zeros(2, "float32"), name="bias")
    optimizer = training.RowwiseAdagrad(initial_accumulator=1.0)
    optimizer.build([variable, bias])
    optimizer.apply([tf.ones((2, 2, 3)), tf.constant([1.0, 0.0])], tf.constant(RATE), 0)
    np.testing.assert_allclose(variable, np.full((2, 2, 3), -RATE / 2**0.5), rtol=1e-6)
    np.testing.assert_allclose(bias, [-RATE / 2**0.5, 0], rtol=1e-6)
    assert isinstance(training.optimizer("rowwise_adagrad", 0.0), training.RowwiseAdagrad)


def blocks():
    rng = np.random.default_rng(1)
    ids = np.minimum(rng.zipf(1.5, 900) - 1, 39).astype(np.int32)
    corpus = WordCorpus([f"w{i}" for i in range(40)], ids, np.arange(0, 901, 9))
    return WordBlocks(corpus, batch_size=4, block=8, window=2, samples=6, sample=0.1)


def trainer(strategy=None, architecture="skipgram", rows=True, **arguments):
    strategy = strategy or tf.distribute.get_strategy()
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = models.word2vec(40, 8, architecture=architecture, window=2, samples=6, block=8)
    optimizer = training.RowwiseAdagrad()
    optimizer.takes_rows = rows
    return training.Trainer(
        objectives.Word2Vec(model, 10.0),
        optimizer,
        RATE,
        strategy=strategy,
        loss_scale=50.0,
        clip_norm=1.0,  # below the gradient's norm
        **arguments,
    )


def trained(*args, **kwargs):
    """Weights and the history after a few steps."""
    made = trainer(*args, **kwargs)
    history = made.fit(blocks(), 6, progress=False, log_every=1)
    return [v.numpy() for v in made.objective.model.trainable_variables], history


CLOSE = dict(rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def by_rows():
    return trained()


def test_by_rows_is_the_same_as_dense(by_rows):
    weights, history = by_rows
    dense, dense_history = trained(rows=False)
    assert_same(weights, dense, **CLOSE)
    for a, b in zip(history.train, dense_history.train, strict=True):
        assert a["gradient_norm"] > 1.0
        for name in a:
            np.testing.assert_allclose(a[name], b[name], rtol=1e-4)
    assert history.train[-1]["loss"] < history.train[0]["loss"]


@pytest.mark.parametrize(
    "rows, arguments",
    [
        (True, {}),
        (False, dict(rows=False)),
        (False, dict(accumulation=2)),
        (False, dict(jit_compile=True)),
    ],
    ids=str,
)
def test_gradients_stay_rows_where_one_device_makes_them_at_once(rows, arguments):
    assert trainer(**arguments).engine.body.rows is rows


@pytest.mark.slow
def test_two_replicas_and_micro_batches_equal_one_device(by_rows):
    weights, _ = by_rows
    assert_same(trained(accumulation=2)[0], weights, **CLOSE)
    assert_same(trained(two_replicas())[0], weights, **CLOSE)


@pytest.mark.slow
def test_under_xla_cbow_is_the_same(by_rows):
    plain, _ = trained(architecture="cbow")
    assert_same(trained(architecture="cbow", jit_compile=True)[0], plain, **CLOSE)
    assert np.abs(plain[0] - by_rows[0][0]).max() > 0.01


@pytest.mark.slow
def test_a_step_updates_rows_and_copies_no_table():
    made = trainer()
    batch = blocks().batch(0)
    step = tf.function(lambda b: made.engine.body.train(b, tf.constant(0, tf.int64)))
    before = [v.numpy() for v in made.objective.model.trainable_variables]
    totals = step(batch)
    after = [v.numpy() for v in made.objective.model.trainable_variables]
    words = np.unique(batch["input_word_ids"])
    outputs = np.unique([*batch["input_word_ids"][:, 2:-2].ravel(), *batch["negative_ids"].ravel()])
    for old, new, rows in zip(before, after, (words, outputs), strict=True):
        changed = np.flatnonzero((old != new).any(1))
        assert set(changed) <= set(rows)
    assert float(totals["count/pairs"]) == np.sum(batch["left"] + batch["right"])
    assert float(totals["work/tokens"]) == 40.0
    graph = step.get_concrete_function(batch).graph
    kinds = [op.type for op in graph.get_operations()]
    assert kinds.count("ResourceScatterUpdate") == 4 and "ResourceApplyAdagrad" not in kinds
