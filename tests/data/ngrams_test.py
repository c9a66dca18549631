"""N-grams of a corpus against lists of words, and batches as a pure function of the step."""

import numpy as np
import pytest

from tfnlp.data import LanguageModelCorpus, Ngrams

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
