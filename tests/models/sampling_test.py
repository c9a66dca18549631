import numpy as np
import pytest
import tensorflow as tf

from tests.layers.reference import log_softmax
from tests.models import gpt_reference as reference
from tfnlp.models import generation, greedy, sample

N = 20_000
SEEDS = np.arange(N, dtype="int32")


def draws(logits, seeds=SEEDS, step=0, **settings):
    """Tokens drawn from `logits` `[V]`, one a seed."""
    logits = np.tile(np.asarray(logits, "float32"), (len(seeds), 1))
    tokens = sample(tf.constant(logits), tf.constant(seeds), step, **settings)
    assert tokens.dtype == tf.int32 and tokens.shape == (len(seeds),)
    return tokens.numpy()


def chi_square(counts, p):
    """In standard deviations from what is expected; 5 is one in a million."""
    expected = counts.sum() * p
    degrees = len(p) - 1
    return (((counts - expected) ** 2 / expected).sum() - degrees) / (2 * degrees) ** 0.5


def softmax(logits):
    return np.exp(log_softmax(logits))


@pytest.mark.parametrize(
    "key, counter, result",
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_published_vectors_of_threefry(key, counter, result):
    def words(pair):
        return tuple(tf.constant([x], tf.uint32) for x in pair)

    got = generation.threefry(words(key), words(counter))
    assert tuple(int(x[0]) for x in got) == result
    assert reference.threefry(key, counter) == result  # so the other tests may lean on it


def test_uniform_is_the_first_bits_of_threefry():
    seeds = [0, 1, 12345, 2**31 - 1, -1, -(2**31)]
    for step in (0, 1, 77, 2**31 - 1):
        got = generation.uniform(tf.constant(seeds, tf.int32), step)
        assert got.dtype == tf.float32
        assert got.numpy().tolist() == [reference.uniform(s, step) for s in seeds]
        np.testing.assert_array_equal(generation.uniform(seeds, tf.constant(step)), got)


LOGITS = np.random.default_rng(4).standard_normal(25) * 1.5
SETTINGS = [
    dict(temperature=1.4),
    dict(top_k=1),
    dict(top_k=6),
    dict(top_k=25),
    dict(top_k=1000),
    dict(top_p=0.5),
    dict(top_p=0.95),
    dict(top_p=1e-6),
    dict(top_k=9, top_p=0.7),
    dict(top_k=4, top_p=0.9, temperature=1.7),
    dict(top_p=0.4, temperature=0.5),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_largest_tokens_against_numpy(settings):
    got = draws(LOGITS, step=2, **settings)
    _, kept = reference.sample(LOGITS, 0.0, **settings)
    counts = np.bincount(got, minlength=25)
    assert set(np.flatnonzero(counts)) == set(kept)
    if len(kept) > 1:
        p = softmax(LOGITS[kept] / settings.get("temperature", 1.0))
        assert abs(chi_square(counts[kept], p)) < 5
    want = [reference.sample(LOGITS, reference.uniform(s, 2), **settings)[0] for s in range(300)]
    np.testing.assert_array_equal(got[:300], want)
    in_tensors = {
        "top_k": tf.constant(settings.get("top_k", 0)),
        "top_p": tf.constant(settings.get("top_p", 1.0)),
        "temperature": tf.constant(settings.get("temperature", 1.0)),
    }
    got = draws(LOGITS, SEEDS[:300], 2, **{**settings, **in_tensors})
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("u", [0.0, 0.3, 1 - 2.0**-24])
@pytest.mark.parametrize(
    "never, settings", [(-np.inf, {}), (-1e9, dict(top_k=5)), (-np.inf, dict(top_p=0.99))], ids=str
)
def test_tokens_without_probability_are_never_drawn(monkeypatch, u, never, settings):
    logits = np.array([never, never, 0.2, never, 1.0, 0.1, never], "float32")
    if u == 0.3:  # and with numbers as they come
        assert set(draws(logits, **settings)) == {2, 4, 5}
    monkeypatch.setattr(generation, "uniform", lambda seeds, step: tf.fill([3], np.float32(u)))
    first = 4 if settings else 2  # by probability, or by number
    want = {0.0: first, 0.3: 4, 1 - 2.0**-24: 5}[u]
    assert set(draws(logits, SEEDS[:3], **settings)) == {want}


def test_sums_that_fall_do_not_draw_what_has_no_probability(monkeypatch):
    # As sums taken in parallel may, by their last bit; here by more, to see it.
    p = np.array([0.0, 0.25, 0.0, 0.5, 0.0, 0.25, 0.0], "float32")
    sums = np.array([0.0, 0.25, 0.2, 0.75, 0.8, 1.0, 1.01], "float32")
    monkeypatch.setattr(generation.ops, "cumsum", lambda x, axis: tf.tile(sums[None], (len(x), 1)))
    u = np.linspace(0, 1 - 2.0**-24, 101).astype("float32")[:, None]
    assert set(generation._draw(np.tile(p, (101, 1)), u).numpy()) == {1, 3, 5}


def test_of_equal_tokens_the_first_are_kept():
    logits = np.zeros(8)
    counts = np.bincount(draws(logits, top_k=3), minlength=8)
    assert (counts[3:] == 0).all() and abs(chi_square(counts[:3], np.full(3, 1 / 3))) < 5
    counts = np.bincount(draws(logits, top_p=0.49), minlength=8)
    assert (counts[:4] > 0).all() and (counts[4:] == 0).all()
    counts = np.bincount(draws(logits), minlength=8)
    assert abs(chi_square(counts, np.full(8, 1 / 8))) < 5


@pytest.mark.parametrize("temperature", [1e-2, 1e-30, 1e-300])
def test_a_temperature_near_zero_is_greedy(temperature):
    logits = np.array([0.1, 3.0, -np.inf, 2.9, 40.0, -1e9])
    for settings in ({}, dict(top_k=3), dict(top_p=0.9)):
        assert set(draws(logits, SEEDS[:99], temperature=temperature, **settings)) == {4}


def test_greedy():
    logits = np.array([[0.0, 2.0, 2.0], [1.0, -1.0, 0.5], [-5.0, -6.0, -4.0]], "float32")
    got = greedy(tf.constant(logits))
    assert got.dtype == tf.int32 and got.numpy().tolist() == [1, 0, 2]
