"""Keras models, losses, optimizers and schedules, and `tf.data` in the trainer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.toy import assert_same, two_replicas
from tfnlp import objectives, training

CLASSES, FEATURES = 5, 6
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def model(dropout=0.0):
    """The same weights, with the same names, at every call."""
    keras.utils.set_random_seed(1)
    x = keras.Input((FEATURES,), name="x")
    y = keras.layers.Dense(8, activation="tanh", name="hidden")(x)
    y = keras.layers.Dropout(dropout, name="dropout")(y)
    return keras.Model(x, keras.layers.Dense(CLASSES, name="logits")(y), name="toy")


RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(48, FEATURES)).astype("float32")
Y = RANDOM.integers(0, CLASSES, 48).astype("int32")
WEIGHTS = RANDOM.random(48).astype("float32")


def dataset(size=16, weights=False):
    parts = (X, Y, WEIGHTS) if weights else (X, Y)
    return tf.data.Dataset.from_tensor_slices(parts).batch(size, drop_remainder=True)


class StepBatches:
    """The batches of `dataset` as a function of the step."""

    batch_size = 16

    def dataset(self, first_step=0):
        return dataset().repeat().skip(first_step)


def trainer(optimizer=keras.optimizers.AdamW, strategy=None, dropout=0.0, rate=None, **more):
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        made = optimizer if isinstance(optimizer, str) else optimizer(1e-2)
        built = model(dropout)
    more = {"loss": LOSS, "clip_norm": None, **more}
    return training.Trainer(built, made, rate, strategy=strategy, **more)


def train(made, steps=6, data=None, **arguments):
    history = made.fit(data or StepBatches(), steps, log_every=1, progress=False, **arguments)
    return history, made.objective.model.get_weights()


def test_adamw_equals_model_fit(tmp_path):
    reference = model()
    reference.compile(keras.optimizers.AdamW(1e-2), LOSS)
    losses = reference.fit(dataset(), epochs=2, verbose=0).history["loss"]
    with pytest.warns(UserWarning, match="are not those"):  # of a run that is resumed
        history, weights = train(trainer(directory=tmp_path), data=dataset())
    assert_same(weights, reference.get_weights(), atol=1e-6)
    means = [np.mean([row["loss"] for row in history.train[i : i + 3]]) for i in (0, 3)]
    np.testing.assert_allclose(means, losses, rtol=1e-5)
    assert history.train[0]["learning_rate"] == pytest.approx(1e-2)


def test_repeated_rows_of_an_embedding_count_as_their_sum():
    ids = np.array([[3, 3, 3, 1], [1, 3, 0, 3]], "int32")
    embedding = keras.Sequential(
        [keras.Input((4,), dtype="int32"), keras.layers.Embedding(5, 2), keras.layers.Flatten()]
    )
    before = embedding.get_weights()[0]
    made = training.Trainer(
        embedding,
        keras.optimizers.Adagrad(0.1, initial_accumulator_value=0.5, epsilon=0.0),
        loss=lambda targets, outputs: tf.reduce_sum(outputs, -1),
        clip_norm=None,
    )
    made.fit(tf.data.Dataset.from_tensors((ids, ids)), 1, progress=False)
    count = np.bincount(ids.ravel(), minlength=5)[:, None] / 2.0  # the gradient: a mean of 2 rows
    want = before - 0.1 * count / np.sqrt(0.5 + count**2)
    np.testing.assert_allclose(embedding.get_weights()[0], want, atol=1e-6)


def schedules():
    """The same rates three times: ours, Keras's, and a function."""
    keras_rate = keras.optimizers.schedules.PolynomialDecay(0.1, 10, end_learning_rate=0.0)
    return [training.linear(0.1, 10), keras_rate, lambda step: 0.1 * (1 - step / 10)]


@pytest.mark.slow
def test_every_form_of_a_schedule_gives_the_same_rates():
    results = [train(trainer("sgd", rate=rate)) for rate in schedules()]
    own = keras.optimizers.SGD(schedules()[1])  # a schedule of the optimizer itself
    results.append(train(trainer(lambda _: own)))
    for history, weights in results:
        rates = [row["learning_rate"] for row in history.train]
        np.testing.assert_allclose(rates, 0.1 - 0.01 * np.arange(6), rtol=1e-5)
        assert_same(weights, results[0][1], atol=1e-6)
    history, _ = train(trainer("adagrad", rate=schedules()[1]), 2)  # an optimizer of ours
    np.testing.assert_allclose([row["learning_rate"] for row in history.train], [0.1, 0.09])


def test_loss_is_the_weighted_mean_over_the_global_batch():
    reference = model()
    losses = keras.losses.sparse_categorical_crossentropy(Y, reference(X), from_logits=True)
    hits = np.argmax(reference(X), -1) == Y
    task = objectives.KerasObjective(
        reference, LOSS, metrics={"accuracy": keras.metrics.sparse_categorical_accuracy}
    )
    made = training.Trainer(task, "sgd")
    batches = [(X[:16], Y[:16]), (X[16:], Y[16:])]
    logs = made.evaluate(batches)
    assert logs["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert logs["accuracy"] == pytest.approx(hits.mean(), rel=1e-5)
    logs = made.evaluate(dataset(weights=True))
    assert logs["loss"] == pytest.approx(np.average(losses, weights=WEIGHTS), rel=1e-5)
    assert logs["accuracy"] == pytest.approx(np.average(hits, weights=WEIGHTS), rel=1e-5)


def test_weights_may_be_those_of_each_target():
    # Inputs by name, and targets [B, T] of which some do not count.
    x = {name: keras.Input((3, 2), name=name) for name in ("a", "b")}
    two = keras.Model(x, keras.layers.Dense(1)(keras.layers.Add()([x["a"], x["b"]]))[..., 0])
    batch = {name: RANDOM.normal(size=(4, 3, 2)).astype("float32") for name in x}
    targets = RANDOM.normal(size=(4, 3)).astype("float32")
    weights = (RANDOM.random((4, 3)) < 0.6).astype("float32")
    made = training.Trainer(two, "sgd", loss=lambda targets, outputs: tf.square(targets - outputs))
    want = np.average((targets - two(batch).numpy()) ** 2, weights=weights)
    as_dict = {**batch, "targets": targets, "sample_weight": weights}
    for one in ((batch, targets, weights), as_dict):
        assert made.evaluate([one])["loss"] == pytest.approx(want, rel=1e-5)
    history = made.fit(tf.data.Dataset.from_tensors(as_dict), 2, log_every=1, progress=False)
    assert history.train[0]["loss"] == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize(
    "data, said",
    [
        ([(X, Y)], "data"),
        (dataset().take(0), "data"),
        (tf.data.Dataset.from_tensors(X), "inputs"),
        (tf.data.Dataset.from_tensors({"x": X}), "keys"),
        (tf.data.Dataset.from_tensors((X, (Y, Y))), "targets"),
    ],
)
def test_other_data_is_refused(data, said):
    with pytest.raises(ValueError, match=said):
        trainer().fit(data, 1)


def test_batches_of_no_fixed_size_are_refused_where_they_are_split():
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(20)
    with pytest.raises(ValueError, match="no fixed size"):
        trainer(accumulation=2).fit(data, 1)
    train(trainer(), 3, data)
    with pytest.raises(ValueError, match="endless"):
        trainer().evaluate(data.repeat())


@pytest.mark.slow
def test_other_optimizers_rates_and_models_are_refused():
    used = keras.optimizers.SGD(0.1)
    train(trainer(lambda _: used), 1)
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
    for optimizer, text in ((used, "is in use"), (scaled, "wraps"), (3, "not int")):
        with pytest.raises(ValueError, match=text):
            trainer(lambda _, made=optimizer: made)
    for call, text in (
        (lambda: trainer("stairs"), "optimizer='stairs'"),
        (lambda: trainer("adamw"), "learning_rate"),
        (lambda: trainer("adamw", rate="fast"), "learning_rate='fast'"),
        (lambda: trainer(layer_rates=training.LayerRates()), "layer_rates"),
        (lambda: trainer(loss=None), "objective must be"),
        (lambda: training.Trainer(keras.Sequential(), "sgd", loss=LOSS), "has no weights yet"),
        (lambda: trainer(loss="unknown"), "unknown"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(ValueError, match="outside the strategy's scope"):
        training.Trainer(model(), keras.optimizers.SGD(), loss=LOSS, strategy=two_replicas())
    with pytest.raises(ValueError, match="a loss for each example"):
        train(trainer(loss=lambda targets, outputs: tf.reduce_mean(outputs)), 1)
