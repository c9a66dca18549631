import numpy as np
import pytest
import tensorflow as tf

from tfnlp.text import mask_tokens

VOCAB, CLS, SEP, MASK, FIRST = 1000, 2, 3, 4, 5
CONTINUES = np.arange(VOCAB) % 5 >= 3  # 40 % continuation pieces; ids 3 and 4 are never maskable


def batch(rng, rows=64, length=40):
    """Random ids with [CLS], [SEP] and padding, and what may be masked."""
    ids = rng.integers(FIRST, VOCAB, [rows, length]).astype(np.int32)
    sizes = rng.integers(2, length + 1, rows)
    sizes[0], sizes[1] = 2, length
    position = np.arange(length)
    ids[:, 0] = CLS
    ids[np.arange(rows), sizes - 1] = SEP
    ids[position >= sizes[:, None]] = 0
    return ids, ids >= FIRST


def mask(ids, maskable, seed=(1, 2), **options):
    defaults = dict(mask_id=MASK, vocab_size=VOCAB, random_floor=FIRST, max_predictions=5)
    return {
        name: value.numpy()
        for name, value in mask_tokens(
            tf.constant(ids), tf.constant(maskable), tf.constant(seed), **defaults | options
        ).items()
    }


def check(out, ids, maskable, max_predictions):
    """Check what holds for every draw; return bool `[B, T]`, what was chosen."""
    positions, weights = out["masked_lm_positions"], out["masked_lm_weights"]
    assert positions.shape == weights.shape == (len(ids), max_predictions)
    assert positions.dtype == out["masked_lm_ids"].dtype == np.int32
    assert out["input_word_ids"].dtype == np.int32 and weights.dtype == np.float32
    chosen = np.zeros_like(maskable)
    for row, (where, weight) in enumerate(zip(positions, weights, strict=True)):
        count = int(weight.sum())
        assert weight.tolist() == [1.0] * count + [0.0] * (max_predictions - count)
        assert (np.diff(where[:count]) > 0).all() and (where[count:] == 0).all()
        assert maskable[row, where[:count]].all()
        assert (out["masked_lm_ids"][row, :count] == ids[row, where[:count]]).all()
        assert (out["masked_lm_ids"][row, count:] == 0).all()
        chosen[row, where[:count]] = True
    hidden = out["input_word_ids"]
    assert (hidden[~chosen] == ids[~chosen]).all()
    assert ((hidden[chosen] == MASK) | (hidden[chosen] >= FIRST)).all()
    assert (hidden < VOCAB).all()
    return chosen


@pytest.mark.parametrize("rate, max_predictions", [(0.15, 5), (0.15, 20), (0.5, 3), (1.0, 60)])
def test_invariants_and_counts(rate, max_predictions):
    ids, maskable = batch(np.random.default_rng(0))
    out = mask(ids, maskable, rate=rate, max_predictions=max_predictions)
    chosen = check(out, ids, maskable, max_predictions)
    for row in range(len(ids)):
        count = int(maskable[row].sum())
        expected = min(max_predictions, max(1, round(count * rate))) if count else 0
        assert chosen[row].sum() == expected


def test_counts_round_like_python():
    """0.15 * 10 = 1.5 -> 2, 0.15 * 30 = 4.5 -> 4, 0.15 * 70 = 10.5 -> 10."""
    lengths = np.arange(129)
    maskable = np.arange(128) < lengths[:, None]
    out = mask(np.full([129, 128], 9, np.int32), maskable, max_predictions=30)
    expected = [0] + [max(1, round(n * 0.15)) for n in range(1, 129)]
    assert out["masked_lm_weights"].sum(1).astype(int).tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("whole_words", [False, True])
def test_compiled(whole_words):
    """A graph chooses the same tokens as eager code; XLA chooses others by the same rules."""
    ids, maskable = batch(np.random.default_rng(2))
    options = dict(mask_id=MASK, vocab_size=VOCAB, random_floor=FIRST, max_predictions=5)
    if whole_words:
        options["is_continuation"] = tf.constant(CONTINUES)

    def run(ids, maskable, seed):
        return mask_tokens(ids, maskable, seed, **options)

    def compiled(seed, jit):
        out = tf.function(run, jit_compile=jit)(ids, maskable, tf.constant(seed))
        return {name: value.numpy() for name, value in out.items()}

    for name, value in mask(ids, maskable, **options).items():
        np.testing.assert_array_equal(compiled([1, 2], jit=False)[name], value, name)
    first, again = compiled([1, 2], jit=True), compiled([1, 2], jit=True)
    chosen = check(first, ids, maskable, 5)
    counts = maskable.sum(1)
    if not whole_words:
        expected = [min(5, max(1, round(n * 0.15))) if n else 0 for n in counts]
        assert chosen.sum(1).tolist() == expected
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value, name)


def test_frequencies():
    """1,000 rows of 100 tokens, 15 chosen in each: shares within four standard errors."""
    rows, length = 1000, 100
    ids = np.tile(np.arange(500, 500 + length, dtype=np.int32), [rows, 1])
    out = mask(ids, np.ones_like(ids, bool), max_predictions=20)
    chosen = check(out, ids, np.ones_like(ids, bool), 20)
    assert chosen.sum() == 15 * rows
    near(chosen.mean(0), 0.15, rows)  # each position alike
    hidden, original = out["input_word_ids"][chosen], ids[chosen]
    near((hidden == MASK).mean(), 0.8, 15 * rows)
    near((hidden == original).mean(), 0.1 + 0.1 / (VOCAB - FIRST), 15 * rows)
    drawn = hidden[(hidden != MASK) & (hidden != original)]
    near(len(drawn) / (15 * rows), 0.1, 15 * rows)
    near((drawn < FIRST + (VOCAB - FIRST) / 2).mean(), 0.5, len(drawn))  # uniform over the ids
    assert drawn.min() < FIRST + 20 and drawn.max() >= VOCAB - 20
    # The draw of the replacement does not depend on the slot.
    masked = out["input_word_ids"] == MASK
    near(masked[:, :50].sum() / chosen[:, :50].sum(), 0.8, chosen[:, :50].sum())
    # Two positions are chosen together as often as by chance (15 * 14 / (100 * 99)).
    near((chosen[:, 0::2] & chosen[:, 1::2]).mean(), 15 * 14 / 9900, rows * 50)


def near(actual, expected, draws):
    error = np.sqrt(expected * (1 - expected) / draws)
    assert np.max(np.abs(actual - expected)) < 4 * error


def test_special_ids_are_never_drawn():
    ids = np.full([200, 100], 9, np.int32)
    special = [0, 1, 2, 3, 4, 7, 11]
    options = dict(vocab_size=12, random_floor=special, max_predictions=100, rate=1.0)
    out = mask(ids, np.ones_like(ids, bool), **options)
    hidden = out["input_word_ids"]
    assert set(np.unique(hidden)) == {MASK, 5, 6, 8, 9, 10}
    drawn = np.isin(hidden, [5, 6, 8, 10])
    near(drawn.mean(), 0.1 * 4 / 5, hidden.size)


def words_of(ids, maskable):
    """Lists of positions, a list per word."""
    words = []
    for position in np.flatnonzero(maskable):
        if CONTINUES[ids[position]] and position and maskable[position - 1]:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def test_whole_words_equal_one_by_one():
    """The rounds of the graph against a plain loop over the words in the drawn order."""
    from tfnlp.text import masking

    rng = np.random.default_rng(7)
    ids, maskable = batch(rng, rows=300)
    scores = rng.random(ids.shape, np.float32)
    budgets = rng.integers(0, 13, len(ids)).astype(np.int32)
    positions = masking._choose_words(
        tf.constant(scores), tf.constant(maskable), tf.constant(CONTINUES[ids]), budgets, 12
    ).numpy()
    for row in range(len(ids)):
        words = words_of(ids[row], maskable[row])
        taken = []
        for index in np.argsort(-scores[row, : len(words)]):
            if len(taken) + len(words[index]) <= budgets[row]:
                taken += words[index]
        expected = sorted(taken) + [ids.shape[1]] * (12 - len(taken))
        assert positions[row].tolist() == expected


def test_whole_words_are_chosen_alike():
    """20 words of 2 pieces, 6 predictions: 3 of the words, each with the same chance."""
    ids = np.tile([5, 8], 20).astype(np.int32)  # 8 continues
    ids = np.tile(ids, [1000, 1])
    out = mask(
        ids, np.ones_like(ids, bool), max_predictions=20, is_continuation=tf.constant(CONTINUES)
    )
    chosen = check(out, ids, np.ones_like(ids, bool), 20)
    near(chosen[:, ::2].mean(0), 3 / 20, 1000)
    masked = out["input_word_ids"] == MASK
    both = (masked[:, ::2] & masked[:, 1::2]).sum() / chosen[:, ::2].sum()
    near(both, 0.64, chosen[:, ::2].sum())  # the draw is per token


@pytest.mark.parametrize("whole_words", [False, True])
def test_nothing_to_mask(whole_words):
    ids = np.array([[2, 3, 0], [2, 9, 3]], np.int32)
    options = dict(is_continuation=tf.constant(CONTINUES)) if whole_words else {}
    out = mask(ids, ids >= FIRST, max_predictions=4, **options)
    assert out["masked_lm_weights"].tolist() == [[0, 0, 0, 0], [1, 0, 0, 0]]
    assert out["masked_lm_positions"].tolist() == [[0, 0, 0, 0], [1, 0, 0, 0]]
    assert out["input_word_ids"][0].tolist() == [2, 3, 0]


@pytest.mark.parametrize("rate", [0.0, 1.5])
def test_a_rate_out_of_its_range(rate):
    with pytest.raises(ValueError, match="rate"):
        mask(*batch(np.random.default_rng(0)), rate=rate)
