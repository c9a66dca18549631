import numpy as np
import pytest
import tensorflow as tf

from tfnlp.layers import ReplacedTokens

B, T, P, V = 3, 6, 3, 5
IDS = np.array([[9, 1, 1, 9, 1, 9], [9, 1, 9, 9, 0, 0], [9, 1, 1, 9, 9, 9]], "int32")
POSITIONS = np.array([[1, 4, 2], [1, 0, 0], [2, 1, 0]], "int32")
TARGETS = np.array([[2, 3, 4], [4, 0, 0], [0, 1, 0]], "int32")
WEIGHTS = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 0]], "float32")
MASKED = (IDS, POSITIONS, TARGETS, WEIGHTS)


def certain(samples):
    """Logits under which nothing but `samples` is drawn."""
    return 100 * np.eye(V, dtype="float32")[samples]


def test_samples_take_the_masks_places_and_equal_tokens_are_not_replaced():
    samples = np.array([[2, 0, 4], [1, 3, 3], [0, 2, 3]])
    text, replaced = ReplacedTokens()(*MASKED, certain(samples))
    # By hand: position 1 of the first row gets its own token, 2, back, and so on.
    np.testing.assert_array_equal(
        text, [[9, 2, 4, 9, 0, 9], [9, 1, 9, 9, 0, 0], [9, 2, 0, 9, 9, 9]]
    )
    np.testing.assert_array_equal(
        replaced, [[0, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]]
    )
    assert text.dtype == tf.int32 and replaced.dtype == tf.float32


def test_samples_are_the_softmaxs():
    """Counts of 40,000 draws against the probabilities, by chi-square."""
    rows, logits = 20_000, np.array([2.0, 0.0, -1.0, 1.0, -30.0], "float32")
    ids = np.ones((rows, 2), "int32")
    positions = np.tile([0, 1], (rows, 1)).astype("int32")
    layer = ReplacedTokens(seed=4)
    text, _ = layer(
        ids, positions, ids, np.ones((rows, 2)), np.tile(logits, (rows, 2, 1)), training=True
    )
    text = np.asarray(text)
    p = np.exp(logits) / np.exp(logits).sum()
    counts = np.bincount(text.ravel(), minlength=V)
    assert counts[4] == 0  # e to -30
    chi = ((counts - p * text.size) ** 2 / (p * text.size))[:4].sum()
    assert chi < 16.3  # 0.999 of three degrees of freedom
    together = np.bincount(text[:, 0] * V + text[:, 1], minlength=V * V).reshape(V, V)
    chi = ((together - rows * np.outer(p, p)) ** 2 / (rows * np.outer(p, p)))[:4, :4].sum()
    assert chi < 37.7  # 0.999 of 15: the two positions are independent


@pytest.mark.slow
def test_samples_of_a_vocabulary_of_several_blocks():
    """300 tokens: counts of 60,000 draws by chi-square, and none where the softmax is 0."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=300).astype("float32")
    never = [0, 5, *range(128, 256), 299]  # a whole block of 128 among them
    logits[never] = -200.0
    ids = np.ones((2000, 30), "int32")
    positions = np.tile(np.arange(30), (2000, 1)).astype("int32")
    masked = (ids, positions, ids, np.ones((2000, 30), "float32"), np.tile(logits, (2000, 30, 1)))
    text, _ = ReplacedTokens(seed=6)(*masked, training=True)
    text = np.ravel(text)
    counts = np.bincount(text, minlength=300)
    p = np.exp(logits.astype("float64")) / np.exp(logits.astype("float64")).sum()
    assert len(counts) == 300 and not counts[never].any()
    drawn = np.delete(np.arange(300), never)
    chi = ((counts - p * text.size) ** 2 / (p * text.size))[drawn].sum()
    assert chi < 230.4  # 0.999 of 168 degrees of freedom


def test_training_draws_anew_and_evaluation_does_not():
    layer = ReplacedTokens(seed=2)
    ids = np.ones((40, 30), "int32")
    positions = np.tile(np.arange(30), (40, 1)).astype("int32")
    logits = np.zeros((40, 30, V), "float32")
    masked = (ids, positions, ids, np.ones((40, 30), "float32"), logits)

    @tf.function(autograph=False)
    def draw(training):
        return layer(*masked, training=training)[0]

    first, second = draw(True).numpy(), draw(True).numpy()
    assert 0.1 < (first == second).mean() < 0.3  # one in five
    np.testing.assert_array_equal(draw(False), draw(False))


def test_nothing_flows_back_and_padding_changes_nothing():
    logits = tf.constant(np.random.default_rng(0).standard_normal((B, P, V)), "float32")
    layer = ReplacedTokens()
    with tf.GradientTape() as tape:
        tape.watch(logits)
        text, replaced = layer(*MASKED, logits)
        loss = tf.reduce_sum(replaced)
    assert tape.gradient(loss, logits) is None
    longer = np.pad(IDS, [(0, 0), (0, 2)])
    more, marks = layer(longer, *MASKED[1:], logits)
    np.testing.assert_array_equal(more[:, :T], text)
    np.testing.assert_array_equal(marks[:, :T], replaced)
    assert not np.any(marks[:, T:]) and not np.any(more[:, T:])
