"""What holds for batches of every kind: they are a pure function of (data, seed, step)."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from tests.data.synthetic import make_corpus
from tfnlp import data
from tfnlp.data.shards.reading import BatchShards

SENTENCES = [
    [f"w{(7 * d + s * s + i) % 31} w{i % 5} w{d % 3}" for i in range(1 + (d + s) % 4)]
    for d in range(12)
    for s in range(1 + d % 3)
]
DOCUMENTS = [[" ".join(words) for words in SENTENCES[n : n + 3]] for n in range(0, 24, 3)]
STREAM = np.concatenate([[0], *(np.append(np.arange(1, 2 + n % 23), 0) for n in range(3, 60, 7))])


def masked(kind, **arguments):
    corpus, tokenizer = make_corpus((1, 3, 2, 5, 1, 2) * 12, longest=20)
    return lambda **seed: kind(
        corpus, tokenizer, batch_size=4, seq_length=64, max_predictions=9, **arguments, **seed
    )


def streams(kind, *end):
    stream = STREAM.astype(np.int32)
    return lambda **seed: kind(stream, *end, batch_size=2, window=9, **seed)


def words():
    sentences = [sentence for document in DOCUMENTS for sentence in document]
    return data.WordCorpus.build(sentences, data.frequent_words(sentences, min_count=1))


def of_lm_corpus(kind, **arguments):
    vocabulary = ["<S>", "</S>", "<UNK>", *(f"w{i}" for i in range(20))]
    corpus = data.LanguageModelCorpus.build(DOCUMENTS, vocabulary, progress=False)
    return lambda **seed: kind(corpus, batch_size=3, **arguments, **seed)


def blocks(**seed):
    return data.WordBlocks(words(), batch_size=2, block=8, window=3, sample=1e-2, **seed)


def cells(**seed):
    return data.CooccurrenceBatches(data.Cooccurrences.count(words(), 3), batch_size=7, **seed)


def task_columns():
    ids = [np.arange(1, 2 + n * n % 11) + 20 * n for n in range(25)]
    return {"ids": ids}, {"labels": np.arange(25)}


def translations(**seed):
    (ids, _), more = task_columns(), np.arange(1, 4)
    targets = [np.concatenate([more, x[:2]]) for x in ids["ids"]]
    return data.translation_batches(ids["ids"], targets, 9, batch_size=4, buckets=1, **seed)


KINDS = {
    "pairs": masked(data.SentencePairs, second="swapped", whole_word=True),
    "packed pairs": masked(data.PackedPairs),
    "masked windows": masked(data.MaskedWindows),
    "masked documents": masked(data.MaskedDocuments),
    "windows": streams(data.TokenWindows),
    "documents": streams(data.PackedDocuments, 0),
    "two directions": of_lm_corpus(data.LanguageModelWindows, window=5, reset="document"),
    "n-grams": of_lm_corpus(data.Ngrams, context=3),
    "blocks": blocks,
    "cells": cells,
    "examples": lambda **seed: data.TaskBatches(
        *task_columns(), batch_size=3, lengths=[12], **seed
    ),
    "packed examples": lambda **seed: data.PackedTaskBatches(
        *task_columns(), batch_size=2, length=12, **seed
    ),
    "translations": translations,
}


def arrays(batch):
    return {name: np.array(value) for name, value in batch.items()}


def assert_equal(one, other):
    one, other = arrays(one), arrays(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert value.dtype == other[name].dtype, name
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def differ(one, other):
    return any((value != other[name]).any() for name, value in one.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_depends_on_data_seed_and_step_alone(kind):
    batches, again, other = (KINDS[kind](**seed) for seed in ({}, {}, {"seed": 1}))
    epoch = int(batches.steps_per_epoch)
    assert epoch > 1
    steps = [2 * epoch + 1, 0, epoch - 1, epoch, 1]
    expected = {step: arrays(batches.batch(step)) for step in sorted(steps)}
    for step in steps:
        found = again.batch(np.int64(step))
        assert_equal(found, expected[step])
        if isinstance(found, dict) and isinstance(next(iter(found.values())), np.ndarray):
            for value in found.values():
                value[:] = 0  # the data does not change with a batch
    assert_equal(again.batch(0), expected[0])
    assert differ(expected[epoch], expected[0])
    assert any(differ(arrays(other.batch(step)), expected[step]) for step in (0, 1))
    first = epoch - 1  # across the end of the epoch
    dataset = again.dataset(first)
    for step, batch in enumerate(dataset.take(4), first):
        assert_equal(batch, batches.batch(step))
    for name, spec in dataset.element_spec.items():
        assert spec.shape == expected[0][name].shape and spec.dtype == expected[0][name].dtype
    assert len(list(again.dataset(10**7).take(1))) == 1
    if kind == "packed examples":
        return
    # An evaluation is always the same; of masked rows it is the first batches.
    masks = hasattr(batches, "random_share")
    one, two = (list(b.evaluation_batches(*([10**6] if masks else []))) for b in (batches, again))
    assert len(one) == len(two) > 1
    for left, right in zip(one, two, strict=True):
        assert_equal(left, right)
    if masks:
        assert len(one) == epoch
        assert_equal(one[1], expected[1])
    if kind not in ("examples", "translations"):
        few = list(batches.evaluation_batches(2))
        assert len(few) == 2
        assert_equal(few[0], one[0])


class Overtaken(BatchShards):
    """Batches of two numbers; the first waits for whether another one comes before it."""

    batch_size = rows_per_epoch = 2

    def __init__(self):
        self.came = threading.Event()

    def records(self, first, per_epoch):
        numbers = tf.data.Dataset.range(first, first + 12)
        return numbers.map(tf.strings.as_string)

    def _parse(self, records, step):
        def parsed(records, step):
            if step == 0:
                self.came.wait(0.5)
            return records.astype(np.int64)

        return tf.numpy_function(parsed, [records, step], tf.int64), step


def test_batches_keep_their_order():
    shards, batches = Overtaken(), []
    for batch in shards.dataset(0).as_numpy_iterator():
        shards.came.set()
        batches.append(batch)
    numbers, steps = zip(*batches, strict=True)
    assert list(steps) == list(range(6))
    np.testing.assert_array_equal(np.concatenate(numbers), np.arange(12))
