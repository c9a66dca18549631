import numpy as np
import pytest
import tensorflow as tf

from tests.layers.gradients import gradients, without_rows
from tests.layers.reference import built, sigmoid
from tfnlp.layers import NoiseContrastiveSoftmax, SampledSoftmax, sampled_softmax
from tfnlp.layers.sampled_softmax import expected_counts

V, P, N, K = 40, 5, 6, 12


def make(num_samples, vocab_size=V, seed=1, scale=0.5, layer=SampledSoftmax):
    return built(layer(vocab_size, num_samples, seed=seed), (None, P), scale=scale)[0]


def draw(vocab_size=V, seed=0):
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, vocab_size, N).astype("int32")
    targets[0] = 0  # a word that is in every sample
    return rng.standard_normal((N, P)).astype("float32"), targets


def scores_of(layer, x):
    kernel, bias = np.asarray(layer.kernel, "float64"), np.asarray(layer.bias, "float64")
    return x.astype("float64") @ kernel.T + bias  # [N, V]


def full_losses(layer, x, y):
    scores = scores_of(layer, x)
    return np.log(np.exp(scores).sum(-1)) - scores[np.arange(len(y)), y]


def log_uniform(vocab_size):
    ends = np.log(np.arange(1, vocab_size + 2)) / np.log(vocab_size + 1)  # from 0 to 1
    return ends[1:] - ends[:-1]


def next_words(layer):
    """The words of the next call, which is not used up by looking at them."""
    state = layer.seed_generator.state
    before = state.numpy()
    words = np.asarray(layer._sample())
    state.assign(before)
    return words


@pytest.mark.parametrize(
    "vocab_size, samples",
    [(40, 12), (5000, 4999), (2, 1), (800_000, 8192)],
)
def test_expected_counts(vocab_size, samples):
    counts = expected_counts(vocab_size, samples)
    assert counts.shape == (vocab_size,) and counts.dtype == "float64"
    np.testing.assert_allclose(counts.sum(), samples, rtol=1e-9)
    assert counts.min() > 0 and counts.max() <= 1
    rare = counts < 1
    assert np.all(np.diff(rare.astype(int)) >= 0)  # the frequent words are the certain ones
    ratio = counts[rare] / log_uniform(vocab_size)[rare]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)
    if not rare.all():  # and no more are certain than must be
        assert ratio[0] * log_uniform(vocab_size)[~rare].min() >= 1 - 1e-6


def test_drawn_frequencies_equal_the_expected_counts():
    samples, draws = 12, 1500
    layer = make(samples)
    sample = tf.function(layer._sample)
    words = np.array([sample() for _ in range(draws)])
    assert words.shape == (draws, samples) and words.min() >= 0 and words.max() < V
    frequencies = np.bincount(words.ravel(), minlength=V) / draws
    expected = expected_counts(V, samples)
    certain = expected == 1
    assert certain.any() and not certain.all()
    np.testing.assert_array_equal(frequencies[certain], 1)
    # Five standard errors; a count that lies across two units has a variance below its mean.
    error = np.sqrt(expected / draws)
    assert np.all(np.abs(frequencies - expected) < 5 * error)


def test_formula_of_a_draw_and_accidental_hits():
    samples = 12
    layer, (x, y) = make(samples), draw()
    scores, counts = scores_of(layer, x), expected_counts(V, samples)
    hits = 0
    for _ in range(20):
        words = next_words(layer)
        expected = []
        for score, target in zip(scores, y, strict=True):
            z = np.exp(score[target])
            for word in words:
                if word == target:
                    hits += 1
                else:
                    z += np.exp(score[word]) / counts[word]
            expected.append(np.log(z) - score[target])
        np.testing.assert_allclose(layer(x, y, training=True), expected, rtol=1e-5, atol=1e-6)
    assert hits >= 20 and 0 in words


@pytest.mark.parametrize("samples, training", [(None, True), (V + 5, True), (3, False)])
def test_inference_and_training_with_enough_samples_are_the_full_softmax(samples, training):
    layer, (x, y) = make(samples), draw()
    assert hasattr(layer, "seed_generator") == (samples == 3)
    got = layer(x.reshape(2, 3, P), y.reshape(2, 3), training=training)
    want = full_losses(layer, x, y).reshape(2, 3)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("block, compiled", [(1, False), (39, False), (7, True)])
def test_full_softmax_in_blocks(block, compiled, monkeypatch):
    layer, (x, y) = make(None, scale=3.0), draw()

    def run():
        return gradients(lambda: layer(x, y, training=True), layer.trainable_variables)

    _, expected = run()  # one block
    monkeypatch.setattr(sampled_softmax, "_BLOCK", block)
    got, found = tf.function(run, jit_compile=True)() if compiled else run()
    np.testing.assert_allclose(got, full_losses(layer, x, y), rtol=1e-5, atol=1e-5)
    for one, other in zip(without_rows(found), without_rows(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_fixed_point_numbers_of_a_large_vocabulary():
    samples, vocab_size = 8192, 800_000
    layer = SampledSoftmax(vocab_size, samples, seed=0)
    ends = layer._ends.astype("int64")
    assert layer._ends.dtype == "int32"
    assert ends[-1] == samples * layer._unit < 2**31 and layer._unit >= 2**16
    drawn_with = np.diff(ends, prepend=0)
    assert drawn_with.min() > 0  # every word can be drawn
    counts = expected_counts(vocab_size, samples)
    np.testing.assert_allclose(drawn_with / layer._unit, counts, rtol=0.01)
    np.testing.assert_allclose(np.exp(layer._log_expected), drawn_with / layer._unit, rtol=1e-9)
    words = np.asarray(layer._sample())
    assert words.shape == (samples,) and words.dtype == "int32"
    assert np.all(np.diff(words) >= 0) and words[0] == 0 and 790_000 < words[-1] < vocab_size
    certain = int((counts == 1).sum())
    np.testing.assert_array_equal(words[:certain], np.arange(certain))


def test_without_targets_it_gives_all_scores():
    layer, (x, y) = make(12), draw()
    for training in (False, True):
        scores = layer(x.reshape(2, 3, P), training=training)
        assert scores.dtype == tf.float32
        np.testing.assert_allclose(tf.reshape(scores, (N, V)), scores_of(layer, x), atol=1e-5)
    log_p = tf.nn.log_softmax(layer(x)).numpy()[np.arange(N), y]
    np.testing.assert_allclose(log_p, -layer(x, y).numpy(), atol=1e-5)


def test_noise_contrastive_losses_are_the_formula_and_those_of_tensorflow():
    layer, (x, y) = make(K, layer=NoiseContrastiveSoftmax), draw()
    scores, counts = scores_of(layer, x), expected_counts(V, K)
    for _ in range(5):
        words = next_words(layer)
        want = []
        for score, target in zip(scores, y, strict=True):
            loss = -np.log(sigmoid(score[target] - np.log(counts[target])))
            for word in words:
                loss -= np.log(1 - sigmoid(score[word] - np.log(counts[word])))
            want.append(loss)
        got = layer(x, y, training=True)
        np.testing.assert_allclose(got, want, rtol=1e-5)
        theirs = tf.nn.nce_loss(
            layer.kernel.value,
            layer.bias.value,
            y[:, None].astype("int64"),
            x,
            K,
            V,
            sampled_values=(words.astype("int64"), counts[y][:, None].astype("float32"),
                            counts[words].astype("float32")),
        )  # fmt: skip
        np.testing.assert_allclose(got, theirs, rtol=1e-5)


def test_noise_contrastive_is_measured_by_the_full_softmax():
    layer, (x, y) = make(K, layer=NoiseContrastiveSoftmax), draw()
    np.testing.assert_allclose(layer(x, y), full_losses(layer, x, y), rtol=1e-5)
    np.testing.assert_allclose(
        make(V, layer=NoiseContrastiveSoftmax)(x, y, training=True),
        full_losses(layer, x, y),
        rtol=1e-5,
    )


def test_at_first_probabilities_add_up_to_one():
    layer = NoiseContrastiveSoftmax(V, K)
    layer.build((None, P))
    np.testing.assert_allclose(np.exp(layer(np.zeros((1, P), "float32"))).sum(), 1, rtol=1e-5)
