"""Windows of a corpus of words against streams of words, and n-grams against lists of them."""

import numpy as np
import pytest

from tfnlp.data import LanguageModelCorpus, LanguageModelWindows, Ngrams
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
    [({"reset": "epoch"}, "reset"), ({"batch_size": 4, "window": 4}, "15 targets")],
)
def test_errors(options, message):
    corpus = make_corpus([["a b c d e f"], ["g h i j k l m"]])
    with pytest.raises(ValueError, match=message):
        LanguageModelWindows(corpus, **{"batch_size": 1, "window": 1, **options})


VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on"]
DOCUMENTS = [["the cat sat", "on"], ["the mat the dog sat on the cat"]]


@pytest.fixture(scope="module")
def corpus():
    return LanguageModelCorpus.build(DOCUMENTS, VOCABULARY, progress=False)


def by_hand(context):
    """Of each target the ids before it, and itself."""
    found = []
    for sentence in (s for document in DOCUMENTS for s in document):
        words = [w if w in VOCABULARY else "<UNK>" for w in sentence.split()]
        row = ["<S>"] * context + words + ["</S>"]
        ids = [VOCABULARY.index(word) for word in row]
        found += [(ids[i - context : i], ids[i]) for i in range(context, len(ids))]
    return found


def rows(batches):
    return [
        (ids.tolist(), int(target))
        for batch in batches
        for ids, target, weight in zip(
            *(np.asarray(batch[n]) for n in ("input_word_ids", "targets", "weights")), strict=True
        )
        if weight
    ]


@pytest.mark.parametrize("context", [1, 2, 5])
@pytest.mark.parametrize("batch_size", [1, 4, 50])
def test_evaluation_has_every_target_once_in_order(corpus, context, batch_size):
    ngrams = Ngrams(corpus, context=context, batch_size=batch_size)
    batches = list(ngrams.evaluation_batches())
    assert rows(batches) == by_hand(context)
    assert len(batches) == -(-ngrams.num_tokens // batch_size)
    for batch in batches:
        assert batch["input_word_ids"].shape == (batch_size, context)
        assert batch["input_word_ids"].dtype == batch["targets"].dtype == "int32"


def test_an_epoch_has_every_target_once_in_another_order(corpus):
    ngrams = Ngrams(corpus, context=2, batch_size=5, seed=7)
    total = ngrams.num_tokens
    assert total == 15 and ngrams.steps_per_epoch == 3
    epochs = [rows(ngrams.batch(3 * e + i) for i in range(3)) for e in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == sorted(by_hand(2)) and epoch != by_hand(2)
    assert epochs[0] != epochs[1] != epochs[2]
    assert rows([Ngrams(corpus, context=2, batch_size=5, seed=8).batch(0)]) != epochs[0][:5]


def test_epochs_go_on_within_a_batch(corpus):
    small, large = (Ngrams(corpus, context=2, batch_size=b, seed=1) for b in (1, 40))
    assert rows([large.batch(1)]) == rows(small.batch(step) for step in range(40, 80))
