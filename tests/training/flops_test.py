"""Operations and tokens that a step counts, compared with counts from the sizes of models."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training import elmo_toy, gpt_toy, toy
from tfnlp.training.cluster.shares import distribute
from tfnlp.training.flops import matmul_flops

PADDING = 261  # the character id that fills up words


def measured(trainer, data, steps):
    """The counts of one call of some steps: (operations, tokens)."""
    iterator = iter(distribute(trainer.strategy, data, 0))
    totals = trainer.train_steps(iterator, tf.constant(steps))
    assert np.isfinite(totals["work/waited"]) and totals["work/waited"] >= 0
    return float(totals["work/flops"]), float(totals["work/tokens"])


def bert_flops(batch):
    rows, length = batch["input_mask"].shape
    h, f, layers, v, p = 16, 32, 2, toy.VOCAB, toy.PREDICTIONS
    tokens = rows * length
    forward = layers * (2 * tokens * (4 * h * h + 2 * h * f) + 4 * rows * length * length * h)
    forward += 2 * rows * p * (h * h + h * v) + 2 * rows * (h * h + 2 * h)
    segments = 2 * tokens * 2 * h  # one-hot times a table; its input needs no gradient
    return 3 * forward + 2 * segments


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_bert(replicas):
    strategy = toy.two_replicas() if replicas == 2 else None
    data = toy.ToyBatches()
    trainer = toy.toy_trainer(strategy, accumulation=replicas, num_layers=2)
    flops, tokens = measured(trainer, data, 2)
    assert flops == 2 * bert_flops(data.batch(0))
    assert tokens == sum(data.batch(step)["input_mask"].sum() for step in range(2))


def test_gpt():
    h, f, v, rows, length = 16, 32, gpt_toy.VOCAB, 8, 6
    tokens = rows * length
    forward = 2 * tokens * (4 * h * h + 2 * h * f + h * v) + 4 * rows * length * length * h
    trainer, data = gpt_toy.toy_trainer(), gpt_toy.toy_windows(rows, length)
    assert measured(trainer, data, 3) == (3 * 3 * forward, 3 * tokens)


def elmo_flops(batch, characters, samples):
    """Layers of one projected LSTM each way; the character network once a distinct word."""
    u, p, e, filters = 6, 4, 3, ((1, 3), (3, 4))
    rows, length = batch["weights"].shape
    words = np.unique([batch["forward_ids"], batch["backward_ids"]])
    used = (characters[words] != PADDING).any(axis=0)
    places = min(used.sum() + 3, len(used))
    wide = sum(n for _, n in filters)
    cnn = sum(len(words) * (places - w + 1) * w * e * n for w, n in filters)
    cnn += len(words) * (2 * wide * wide + wide * p)
    tokens = rows * length
    lstm = tokens * (p * 4 * u + p * 4 * u + u * p)  # inputs, recurrent, projection
    softmax = tokens * p * samples
    return 3 * 2 * (cnn + 2 * (lstm + softmax))  # both directions; a gradient is twice forward


def test_elmo_counts_distinct_words_and_iterations_of_loops():
    data = elmo_toy.toy_windows(batch_size=2)
    trainer = elmo_toy.toy_trainer(task=dict(batch_size=2, num_samples=5))
    characters = trainer.task.characters.numpy()
    batches = [b for b, _ in zip(data.dataset(0).as_numpy_iterator(), range(3), strict=False)]
    want = sum(elmo_flops(batch, characters, samples=5) for batch in batches)
    assert len({elmo_flops(batch, characters, 5) for batch in batches}) > 1  # shapes differ
    flops, tokens = measured(trainer, data, 3)
    np.testing.assert_allclose(flops, want, rtol=1e-6)
    assert tokens == sum(batch["weights"].sum() for batch in batches)


def counted(function, *arguments, signature=None):
    """The count of what `function` returns, a tensor or a list of tensors."""

    @tf.function(input_signature=signature, autograph=False)
    def run(*args):
        count = matmul_flops(tf.nest.flatten(function(*args)))
        return tf.constant(-1.0) if count is None else count

    return float(run(*arguments))


def test_only_what_is_needed_is_counted():
    x = tf.ones((3, 4))

    def two(x):
        tf.matmul(x, tf.ones((4, 50)))  # not needed for the result
        return tf.matmul(x, x, transpose_b=True)

    assert counted(two, x) == 2 * 3 * 4 * 3


def test_batch_axes_are_broadcast_and_read_when_unknown():
    def product(a, b):
        return tf.matmul(a, b, transpose_a=True)

    a, b = tf.ones((2, 5, 6, 3)), tf.ones((5, 6, 7))
    assert counted(product, a, b) == 2 * 2 * 5 * 6 * 3 * 7
    unknown = [tf.TensorSpec((None, 5, None, 3)), tf.TensorSpec((5, None, 7))]
    assert counted(product, a, b, signature=unknown) == 2 * 2 * 5 * 6 * 3 * 7


def test_einsum():
    def product(a, b):
        return tf.einsum("btd,dhk->bthk", a, b)

    a, b = tf.ones((2, 3, 4)), tf.ones((4, 5, 6))
    assert counted(product, a, b) == 2 * 2 * 3 * 4 * 5 * 6
    unknown = [tf.TensorSpec((None, None, 4)), tf.TensorSpec((4, 5, 6))]
    assert counted(product, a, b, signature=unknown) == 2 * 2 * 3 * 4 * 5 * 6


def test_convolutions_and_their_gradients():
    layers = [keras.layers.Conv1D(5, 3), keras.layers.Conv1D(7, 2)]
    x = tf.ones((2, 10, 4))
    for layer in layers:
        x = layer(x)
    first, second = 2 * 2 * 8 * 5 * 3 * 4, 2 * 2 * 7 * 7 * 2 * 5

    def gradients(x):
        with tf.GradientTape() as tape:
            y = layers[1](layers[0](x))
        return tape.gradient(y, [layer.kernel.value for layer in layers])

    # Backwards: both kernels, and the input of the second. No gradient needs the last result.
    x = tf.ones((2, 10, 4))
    assert counted(gradients, x) == 2 * first + 2 * second
    assert counted(lambda x: layers[1](layers[0](x)), x) == first + second


def test_loops_and_calls():
    inner = tf.function(lambda x: tf.matmul(x, x))  # 2 * 27

    def loop(x, turns):
        body = lambda i, y: (i + 1, inner(y))  # noqa: E731
        return tf.while_loop(lambda i, y: i < turns, body, (0, x))[1]

    x = tf.eye(3)
    assert counted(inner, x) == 54
    assert counted(loop, x, tf.constant(7)) == 7 * 54
    either = lambda x: tf.cond(x[0, 0] > 5, lambda: inner(inner(x)), lambda: x)  # noqa: E731
    assert counted(either, x) == 2 * 54  # the branch with more operations

    def twice(x, turns):
        body = lambda i, y: (i + 1, loop(y, turns))  # noqa: E731
        return tf.while_loop(lambda i, y: i < turns, body, (0, x))[1]

    assert counted(twice, x, tf.constant(2)) == -1  # the iterations of the inner loop aren't known
    assert matmul_flops([tf.matmul(x, x)]) is None


def test_functions_of_a_saved_model_have_no_shapes(tmp_path):
    module = tf.Module()
    module.table = tf.Variable(tf.ones((3, 4)))
    spec = tf.TensorSpec((None, 3))
    module.product = tf.function(lambda x: tf.matmul(x, module.table), input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path))
    loaded, found = tf.saved_model.load(str(tmp_path)), []

    @tf.function
    def step(x):
        y = loaded.product(x)
        found.append(matmul_flops([y]))
        return y

    np.testing.assert_allclose(step(tf.ones((2, 3))), 3 * np.ones((2, 4)))
    assert found == [None]
