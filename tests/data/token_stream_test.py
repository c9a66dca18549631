import numpy as np
import pytest

from tfnlp.data import TokenizedCorpus, TokenWindows, token_stream

NAMES = {"input_word_ids", "input_mask", "targets", "weights"}
NEWLINE, END = 90, 91


def corpus(documents):
    """A corpus of documents of sentences of tokens."""
    sentences = [sentence for document in documents for sentence in document]
    return TokenizedCorpus(
        tokens=np.array([token for sentence in sentences for token in sentence], np.int32),
        sentence_starts=np.cumsum([0, *map(len, sentences)]),
        document_starts=np.cumsum([0, *map(len, documents)]),
    )


def counting(size, **arguments):
    """Windows of the stream 100, 101, ...: each token says where it stands."""
    return TokenWindows(np.arange(100, 100 + size, dtype=np.int32), **arguments)


def test_streams_of_any_documents():
    rng = np.random.default_rng(0)
    for _ in range(20):
        documents = [
            [rng.integers(0, 50, rng.integers(1, 6)).tolist() for _ in range(rng.integers(1, 5))]
            for _ in range(rng.integers(1, 6))
        ]
        want = [END]
        for document in documents:
            for sentence in document:
                want += [*sentence, NEWLINE]
            want[-1] = END
        built = corpus(documents)
        got = token_stream(built, NEWLINE, END)
        assert got.tolist() == want
        assert len(got) == 1 + built.num_tokens + built.num_sentences
        assert token_stream(built, END, END).tolist() == [END if t == NEWLINE else t for t in want]


SIZES = [(200, 4, 7), (50, 3, 10), (20, 2, 19), (12, 5, 7), (9, 1, 1), (10_000, 16, 32)]


@pytest.mark.parametrize(("size", "batch_size", "window"), SIZES)
def test_an_epoch_has_every_token_once_up_to_its_shift(size, batch_size, window):
    windows = counting(size, batch_size=batch_size, window=window, seed=3)
    count = windows.windows_per_epoch
    assert windows.steps_per_epoch == count / batch_size
    epochs = 5 if size < 1000 else 3
    batches = [windows.batch(step) for step in range(-(-epochs * count // batch_size))]
    for batch in batches:
        assert set(batch) == NAMES
        assert (batch["input_mask"] == 1).all() and (batch["weights"] == 1).all()
        np.testing.assert_array_equal(batch["targets"], batch["input_word_ids"] + 1)
    rows = np.concatenate([b["input_word_ids"] for b in batches])
    np.testing.assert_array_equal(rows, rows[:, :1] + np.arange(window))
    # What is left out is less than two windows.
    assert 0 <= size - 1 - count * window < 2 * window
    shifts, orders = [], []
    for epoch in range(epochs):
        starts = rows[epoch * count : (epoch + 1) * count, 0] - 100
        shift = starts.min()
        assert 0 <= shift < window
        np.testing.assert_array_equal(np.sort(starts), shift + window * np.arange(count))
        assert starts.max() + window < size  # the last target is there
        shifts.append(int(shift))
        orders.append(((starts - shift) // window).tolist())
    if count > 5:
        assert len(set(map(tuple, orders))) == epochs
        assert len(set(shifts)) > 1 or window == 1
        assert sorted(orders[0]) != orders[0]


@pytest.mark.parametrize(
    ("size", "batch_size", "window"), [(20, 2, 19), (12, 5, 7), (9, 1, 1), (65, 4, 8)]
)
def test_evaluation_has_every_token_once(size, batch_size, window):
    windows = counting(size, batch_size=batch_size, window=window)
    for stride in sorted({1, 2, 3, (window + 1) // 2, window} & set(range(1, window + 1))):
        dataset = windows.evaluation_batches(stride=stride)
        batches = list(dataset.as_numpy_iterator())
        assert len(batches) == len(dataset)
        whole = {n: np.concatenate([b[n] for b in batches]) for n in NAMES}
        mask, weights = whole["input_mask"], whole["weights"]
        real = mask > 0
        assert (np.diff(mask, axis=1) <= 0).all()  # padding stands on the right
        assert not whole["input_word_ids"][~real].any() and not weights[~real].any()
        np.testing.assert_array_equal(whole["targets"][real], whole["input_word_ids"][real] + 1)
        counted = whole["targets"][weights > 0] - 100
        assert counted.tolist() == list(range(1, size))  # once each, in their order
        # A target's context is what stands before it in its window, itself left out.
        context = np.broadcast_to(1 + np.arange(window), weights.shape)[weights > 0]
        want = []
        for target in range(1, size):  # read in the first window that reaches it
            number = max(0, -(-(target - window) // stride))
            want.append(target - number * stride)
        assert context.tolist() == want
        assert (context[window:] >= window - stride + 1).all()
        np.testing.assert_array_equal(context[:window], 1 + np.arange(min(window, size - 1)))


def test_some_evaluation_batches_are_spread_over_the_text():
    windows = counting(101, batch_size=2, window=5)
    whole = list(windows.evaluation_batches().as_numpy_iterator())
    assert len(whole) == 10
    for count, chosen in ((1, [0]), (2, [0, 5]), (3, [0, 3, 6]), (10, range(10)), (99, range(10))):
        some = list(windows.evaluation_batches(count).as_numpy_iterator())
        assert len(some) == len(chosen)
        for one, other in zip(some, chosen, strict=True):
            np.testing.assert_array_equal(one["targets"], whole[other]["targets"])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"window": 0}, "window"), ({"seed": -1}, "seed"), ({"window": 10}, "a window of 10")],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        counting(10, **{"batch_size": 1, "window": 3, **options})
