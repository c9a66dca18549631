"""The CRF against all sequences of tags, one by one."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers.gradients import gradients
from tfnlp.layers import CRF
from tfnlp.layers.crf import Chain, log_partition, plain_log_partition

B, T, K = 4, 5, 3
MASK = np.array(
    [[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]], bool
)  # whole, with gaps, one word, none


def drawn(rate=1.0, seed=0):
    """A layer with random scores, its scores as numpy float64, emissions and tags."""
    rng = np.random.default_rng(seed)
    layer = CRF(K, rate=rate)
    layer.build((B, T, K))
    scores = [rng.normal(size=w.shape) for w in layer.weights]
    layer.set_weights([s / rate for s in scores])
    inputs = rng.normal(size=(B, T, K)).astype("float32")
    return layer, scores, inputs, rng.integers(0, K, (B, T)).astype("int32")


def score(emissions, tags, scores):
    """The score of one sequence, as the docstring has it."""
    transitions, start, end = scores
    if not len(tags):
        return 0.0
    total = start[tags[0]] + end[tags[-1]] + sum(e[y] for e, y in zip(emissions, tags, strict=True))
    return total + sum(transitions[a, b] for a, b in itertools.pairwise(tags))


def enumerated(emissions, scores):
    """All sequences of tags of the real positions, and their scores."""
    every = list(itertools.product(range(K), repeat=len(emissions)))
    return np.array(every, int).reshape(len(every), -1), np.array(
        [score(emissions, tags, scores) for tags in every]
    )


@pytest.mark.parametrize("rate", [1.0, 20.0])
def test_everything_against_all_sequences(rate):
    layer, scores, inputs, tags = drawn(rate)
    log_z = layer.log_partition(inputs, MASK)
    likelihood = layer(inputs, tags=tags, mask=MASK)
    marginals = layer.marginals(inputs, MASK).numpy()
    best, best_score = (x.numpy() for x in layer.decode(inputs, MASK))
    for row, mask in enumerate(MASK):
        every, totals = enumerated(inputs[row, mask].astype("float64"), scores)
        expected = np.log(np.exp(totals).sum())
        np.testing.assert_allclose(log_z[row], expected, rtol=1e-5, atol=1e-6)
        right = score(inputs[row, mask], tags[row, mask], scores)
        np.testing.assert_allclose(likelihood[row], right - expected, rtol=1e-5, atol=1e-5)
        shares = np.exp(totals - expected)
        share = np.array([[shares[every[:, t] == k].sum() for k in range(K)]
                          for t in range(every.shape[1])]).reshape(-1, K)  # fmt: skip
        np.testing.assert_allclose(marginals[row, mask], share, rtol=1e-4, atol=1e-6)
        assert not marginals[row, ~mask].any() and not best[row, ~mask].any()
        np.testing.assert_array_equal(best[row, mask], every[totals.argmax()])
        np.testing.assert_allclose(best_score[row], totals.max(), rtol=1e-5, atol=1e-6)


def test_without_mask_all_positions_are_real():
    layer, _, inputs, tags = drawn()
    everywhere = np.ones((B, T), bool)
    np.testing.assert_array_equal(
        layer(inputs, tags=tags), layer(inputs, tags=tags, mask=everywhere)
    )
    np.testing.assert_array_equal(layer(inputs), inputs)


def test_the_hand_written_gradient_is_that_of_the_formula():
    """Also of a row without words; in a row of the conformance table there are some."""
    layer, _, inputs, _ = drawn(seed=1)
    chain, live = layer._chain(tf.constant(inputs), MASK)
    weights = np.array([0.5, -1.3, 2.0, 1.0], "float32")
    found, want = (
        gradients(lambda f=f: f(Chain(*chain), live), list(chain), weights)
        for f in (log_partition, plain_log_partition)
    )
    np.testing.assert_allclose(found[0], want[0], rtol=1e-6)
    for one, other in zip(found[1], want[1], strict=True):
        assert np.abs(other).max() > 0.1
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_scores_that_forbid_a_transition():
    """-1e9 forbids: nothing is NaN, and no sequence has it."""
    layer, (transitions, start, end), inputs, _ = drawn()
    transitions[0, 1] = start[2] = -1e9
    layer.set_weights([transitions, start, end])
    best = layer.decode(inputs, MASK)[0].numpy()
    for row, mask in enumerate(MASK):
        path = best[row, mask].tolist()
        assert (0, 1) not in itertools.pairwise(path) and path[:1] != [2]
    marginals = layer.marginals(inputs, MASK).numpy()
    np.testing.assert_allclose(marginals.sum(-1), MASK, atol=1e-5)
    assert marginals[0, 0, 2] == 0


def test_rate_is_a_factor_of_the_steps_of_the_transitions():
    """Not of the gradient: clipping by norm would weigh it against the other weights."""
    moved, norms = [], []
    for rate in (1.0, 20.0):
        layer, _, inputs, tags = drawn(rate)
        before = layer.scores()[0].numpy()
        given = dict(tags=tags, mask=MASK)
        _, (gradient,) = gradients(lambda: -layer(inputs, **given), layer.weights[:1])  # noqa: B023
        layer.weights[0].assign_sub(0.01 * tf.convert_to_tensor(gradient))
        moved.append(layer.scores()[0].numpy() - before)
        norms.append(np.linalg.norm(gradient))
    np.testing.assert_allclose(moved[1], 20 * moved[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(*norms, rtol=1e-5)


@pytest.mark.slow
def test_keras_trains_a_tagger_and_its_file_goes_on(tmp_path):
    """Loss and accuracy of `compile` are those of the formula, with masks and tags below 0."""
    rng = np.random.default_rng(4)
    ids = rng.integers(1, 9, (8, T))
    ids[:, -1] = 0  # which the embedding masks
    tags = np.where(ids == 3, -1, ids % K)
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, 6, mask_zero=True)(inputs)
    crf = CRF(K, rate=10.0)
    model = keras.Model(inputs, crf(keras.layers.Dense(K)(x)))
    adam, metrics = keras.optimizers.Adam(0.05), [crf.accuracy()]
    model.compile(adam, loss=crf.loss(), metrics=metrics, jit_compile=False)
    real = (ids > 0) & (tags >= 0)
    scores = np.asarray(model(ids))

    def expected():
        best = np.asarray(crf.decode(scores, real)[0])
        return [-np.mean(crf(scores, tags=tags * real, mask=real)), (best == tags)[real].mean()]

    np.testing.assert_allclose(model.evaluate(ids, tags, verbose=0), expected(), rtol=1e-5)
    before = crf.scores()[0].numpy()
    history = model.fit(ids, tags, epochs=15, verbose=0).history
    assert history["loss"][-1] < 0.2 * history["loss"][0] and history["accuracy"][-1] == 1
    assert np.abs(crf.scores()[0].numpy() - before).max() > 0.1
    model.save(tmp_path / "tagger.keras")
    again = keras.models.load_model(tmp_path / "tagger.keras")
    want = model.evaluate(ids, tags, verbose=0)
    np.testing.assert_allclose(again.evaluate(ids, tags, verbose=0), want, rtol=1e-5)
    trained = again.layers[-1].scores()[0].numpy()
    again.fit(ids, tags, verbose=0)
    assert np.abs(again.layers[-1].scores()[0].numpy() - trained).max() > 1e-4
