"""Blocks of words for word2vec: what is left out, windows, negatives, and that steps are pure."""

import numpy as np
import pytest

from tfnlp.data import WordBlocks, WordCorpus, frequent_words
from tfnlp.data.pretraining.word_blocks import alias_table, keep_probabilities

WINDOW, BLOCK, ROWS = 3, 8, 4


@pytest.fixture(scope="module")
def corpus():
    """Sentences of 1 to 12 words; a word says in which sentence and place it stands."""
    rng = np.random.default_rng(0)
    sentences = [" ".join(f"{s}_{i}" for i in range(rng.integers(1, 13))) for s in range(200)]
    words = frequent_words(sentences, min_count=1)
    return WordCorpus.build(sentences, words)


def blocks(corpus, **arguments):
    sizes = dict(batch_size=ROWS, block=BLOCK, window=WINDOW, samples=5, sample=0, seed=3)
    return WordBlocks(corpus, **{**sizes, **arguments})


def test_words_by_frequency_and_what_min_count_leaves_out():
    text = ["b a c a", "", "a b d", "é b"]
    for limits, want in (((1,), "abcdé"), ((2,), "ab"), ((1, 3), "abc")):
        assert frequent_words(text, *limits) == [*want]
    found = WordCorpus.build(text, ["a", "b"])
    assert found.ids.tolist() == [1, 0, 0, 0, 1, 1]
    assert found.sentence_starts.tolist() == [0, 3, 5, 6] and found.unknown == 3
    assert found.counts.tolist() == [3, 3]


def test_windows_stay_in_their_sentences_and_name_the_neighbours(corpus):
    data = blocks(corpus)
    place = np.array([[int(x) for x in word.split("_")] for word in corpus.words])
    length = np.bincount(place[:, 0])
    widths = []
    for step in range(2 * data.steps_per_epoch):
        batch = data.batch(step)
        for row in range(ROWS):
            words = place[batch["input_word_ids"][row]]  # [L + 2W, (sentence, place)]
            for i in range(BLOCK):
                left, right = batch["left"][row, i], batch["right"][row, i]
                at = i + WINDOW
                sentence, number = words[at]
                near = words[at - left : at + right + 1]
                assert (near[:, 0] == sentence).all()
                assert near[:, 1].tolist() == list(range(number - left, number + right + 1))
                # The same window on both sides, but where the sentence ends.
                before, behind = number, length[sentence] - 1 - number
                b = max(left, right)
                assert left == min(b, before) or left == before < WINDOW
                assert right == min(b, behind) or right == behind < WINDOW
                if min(before, behind) >= WINDOW:
                    assert left == right
                    widths.append(left)
    shares = np.bincount(widths, minlength=WINDOW + 1) / len(widths)
    assert shares[0] == 0
    np.testing.assert_allclose(shares[1:], 1 / WINDOW, atol=5 / len(widths) ** 0.5)


def test_an_epoch_is_the_whole_text_but_for_the_ends_of_rows(corpus):
    data = blocks(corpus)
    steps = data.steps_per_epoch
    assert steps == corpus.num_words // (ROWS * BLOCK)
    for epoch in (0, 1):
        batches = [data.batch(epoch * steps + n) for n in range(steps)]
        ids = np.concatenate([b["input_word_ids"][:, WINDOW:-WINDOW].ravel() for b in batches])
        seen = np.bincount(ids, minlength=len(corpus.words))
        assert seen.max() == 1 and seen.sum() > corpus.num_words - ROWS * (BLOCK + 1)
    # Rows go on where they were, and epochs start elsewhere.
    first, second = data.batch(0)["input_word_ids"], data.batch(1)["input_word_ids"]
    np.testing.assert_array_equal(first[:, BLOCK:], second[:, : 2 * WINDOW])
    assert (data.batch(steps)["input_word_ids"] != first).any()


def zipf(size=60_000, vocab=50, seed=0):
    """A corpus of words drawn with probability near 1 / rank, in sentences of 20."""
    rng = np.random.default_rng(seed)
    p = 1 / np.arange(1, vocab + 1)
    ids = rng.choice(vocab, size, p=p / p.sum()).astype(np.int32)
    return WordCorpus([f"w{i}" for i in range(vocab)], ids, np.arange(0, size + 1, 20))


def test_frequent_words_are_left_out_at_word2vecs_rate():
    corpus, t = zipf(), 0.01
    data = blocks(corpus, sample=t, block=50, batch_size=20)
    counts = np.zeros(50)
    steps = data.steps_per_epoch
    for step in range(steps):
        ids = data.batch(step)["input_word_ids"][:, WINDOW:-WINDOW]
        counts += np.bincount(ids.ravel(), minlength=50)
    f = corpus.counts / corpus.counts.sum()
    want = np.minimum(1, np.sqrt(t / f) + t / f)
    assert want.min() < 0.3 and want.max() == 1
    # Five standard errors of a binomial count, and the few words at the ends of rows.
    error = 5 * np.sqrt(corpus.counts * want * (1 - want)) + 40
    assert (np.abs(counts - corpus.counts * want) < error).all()
    np.testing.assert_allclose(keep_probabilities(corpus.counts, t), want)
    np.testing.assert_array_equal(keep_probabilities(corpus.counts, 0), np.ones(50))


def test_negatives_follow_counts_to_the_three_quarters():
    corpus = zipf()
    data = blocks(corpus, samples=500)
    drawn = np.concatenate([data.batch(n)["negative_ids"].ravel() for n in range(100)])
    p = corpus.counts**0.75
    expected = p / p.sum() * len(drawn)
    chi_square = ((np.bincount(drawn, minlength=50) - expected) ** 2 / expected).sum()
    assert chi_square < 85.4  # 49 degrees of freedom: one in a thousand
    # The plain frequencies would be told apart at once.
    plain = corpus.counts / corpus.counts.sum() * len(drawn)
    assert ((np.bincount(drawn, minlength=50) - plain) ** 2 / plain).sum() > 1000


@pytest.mark.parametrize("weights", [[1.0], [1, 2, 3, 4], [0, 5, 0, 1], [1e-9, 1, 1e9]])
def test_alias_table_shares_out_what_the_weights_say(weights):
    weights = np.array(weights, "float64")
    threshold, other = alias_table(weights)
    shares = threshold / 2**32
    got = shares + np.bincount(other, weights=1 - shares, minlength=len(weights))
    np.testing.assert_allclose(got / len(weights), weights / weights.sum(), atol=1e-9)


def test_evaluation_reads_every_word_once(corpus):
    data = blocks(corpus)
    batches = list(data.evaluation_batches())
    assert len(batches) == -(-corpus.num_words // (ROWS * BLOCK))
    ids = np.concatenate([b["input_word_ids"].numpy()[:, WINDOW:-WINDOW].ravel() for b in batches])
    np.testing.assert_array_equal(ids[: corpus.num_words], corpus.ids)
    right = np.concatenate([b["right"].numpy().ravel() for b in batches])
    assert not right[corpus.num_words :].any() and right[: corpus.num_words].any()


def test_a_text_too_small_to_train_on_can_be_evaluated_on(corpus):
    data = blocks(corpus, batch_size=500)
    with pytest.raises(ValueError, match="batch_size"):
        data.steps_per_epoch  # noqa: B018
    (batch,) = data.evaluation_batches()
    assert 0 < np.sum(batch["left"]) < 500 * BLOCK * WINDOW


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: frequent_words(["", " "]), "no words"),
        (lambda: frequent_words(["a b a"], min_count=3), "min_count=3"),
        (lambda: WordCorpus.build(["a b"], ["c"]), "vocabulary"),
    ],
)
def test_bad_text_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
