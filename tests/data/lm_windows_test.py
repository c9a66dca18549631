import numpy as np
import pytest

from tfnlp.data import LanguageModelCorpus, LanguageModelWindows
from tfnlp.text import train_words

NAMES = {"forward_ids", "forward_targets", "backward_ids", "backward_targets", "weights"}


def make_documents(count=20, seed=0):
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(60)]
    return [
        [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(rng.integers(1, 6))]
        for _ in range(count)
    ]


def make_corpus(documents, vocab_size=40):
    vocabulary = train_words((s for d in documents for s in d), max_size=vocab_size)
    return LanguageModelCorpus.build(documents, vocabulary, progress=False)


def streams(documents, vocabulary):
    """What bilm-tf reads and predicts, in words, and where sentences and documents begin."""
    known = set(vocabulary)
    place = {name: [] for name in [*sorted(NAMES - {"weights"}), "sentence", "document"]}
    for document in documents:
        for number, sentence in enumerate(document):
            words = sentence.split()
            targets = [word if word in known else "<UNK>" for word in words]
            place["forward_ids"] += ["<S>", *words]
            place["forward_targets"] += [*targets, "</S>"]
            place["backward_ids"] += ["</S>", *words[::-1]]
            place["backward_targets"] += [*targets[::-1], "<S>"]
            place["sentence"] += [True] + [False] * len(words)
            place["document"] += [number == 0] + [False] * len(words)
    return {name: np.array(values) for name, values in place.items()}


def joined(batches, name):
    """The rows of consecutive batches, [B, steps T]."""
    return np.concatenate([np.asarray(batch[name]) for batch in batches], axis=1)


def offset_of(rows, stream, names):
    """Where the first row begins in the ring; it must be one place alone."""
    count = len(stream[names[0]])
    places = np.arange(rows[names[0]].shape[1])
    found = [
        start
        for start in range(count)
        if all((stream[name][(start + places) % count] == rows[name][0]).all() for name in names)
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("reset", ["never", "document", "sentence"])
@pytest.mark.parametrize(("batch_size", "window"), [(1, 20), (4, 5), (3, 1)])
def test_epochs_go_round_the_streams(batch_size, window, reset):
    documents = make_documents()
    corpus = make_corpus(documents)
    stream = streams(documents, corpus.lexicon[: corpus.vocab_size])
    total = len(stream["sentence"])
    assert corpus.num_tokens == total and "<UNK>" in stream["forward_targets"]
    sizes = {"batch_size": batch_size, "window": window}
    windows = LanguageModelWindows(corpus, seed=3, reset=reset, **sizes)
    steps, length = windows.steps_per_epoch, total // batch_size
    assert steps == length // window
    names, words = sorted(NAMES - {"weights"}), np.array(corpus.lexicon)
    offsets = []
    for epoch in range(3):
        batches = [windows.batch(epoch * steps + step) for step in range(steps)]
        for batch in batches:
            assert set(batch) == NAMES | ({"resets"} if reset != "never" else set())
            for name, value in batch.items():
                kind = {"weights": np.float32, "resets": np.bool_}.get(name, np.int32)
                assert value.shape == (batch_size, window) and value.dtype == kind
        rows = {name: words[joined(batches, name)] for name in names}
        offsets.append(offset_of(rows, stream, names))
        # Row by row they are the streams, one after another.
        places = offsets[-1] + length * np.arange(batch_size)[:, None] + np.arange(steps * window)
        places %= total
        for name in names:
            np.testing.assert_array_equal(rows[name], stream[name][places], err_msg=name)
        assert (joined(batches, "weights") == 1).all()
        assert len(set(places.ravel())) == places.size  # nothing twice
        if reset != "never":
            expected = stream[reset][places]
            expected[:, 0] = True  # where the epoch begins
            np.testing.assert_array_equal(joined(batches, "resets"), expected)
    assert len(set(offsets)) == 3


@pytest.mark.parametrize("reset", ["never", "document", "sentence"])
@pytest.mark.parametrize(("batch_size", "window"), [(4, 5), (7, 20), (16, 3)])
def test_evaluation_has_every_target_once(batch_size, window, reset):
    documents = make_documents()
    corpus = make_corpus(documents)
    stream = streams(documents, corpus.lexicon[: corpus.vocab_size])
    windows = LanguageModelWindows(corpus, batch_size=batch_size, window=window, reset=reset)
    dataset = windows.evaluation_batches()
    batches = list(dataset.as_numpy_iterator())
    assert len(batches) == len(dataset)
    weights = joined(batches, "weights").astype(bool)
    assert weights.sum() == corpus.num_tokens
    # Behind padding only padding follows.
    assert not (weights[:, 1:] & ~weights[:, :-1]).any()
    words = np.array(corpus.lexicon)
    for name in NAMES - {"weights"}:
        rows = joined(batches, name)
        np.testing.assert_array_equal(words[rows[weights]], stream[name])
        assert (rows[~weights] == corpus.end_id).all()
    if reset != "never":
        resets = joined(batches, "resets")
        assert resets[:, 0][weights[:, 0]].all()
        assert not resets[~weights].any()
        starts = np.zeros(weights.shape, bool)
        starts[:, 0] = True
        np.testing.assert_array_equal(resets[weights], stream[reset] | starts[weights])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reset": "epoch"}, "reset"),
        ({"batch_size": 4, "window": 4}, "15 targets"),
    ],
)
def test_errors(options, message):
    corpus = make_corpus([["a b c d e f"], ["g h i j k l m"]])
    with pytest.raises(ValueError, match=message):
        LanguageModelWindows(corpus, **{"batch_size": 1, "window": 1, **options})
