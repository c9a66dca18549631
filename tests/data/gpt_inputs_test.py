import numpy as np
import pytest
import tensorflow as tf

from tfnlp.data import GPTTaskBatches, TaskExample, bucket_lengths, gpt_sequences

V = 100
START, DELIMITER, EXTRACT = V, V + 1, V + 2


class Numbers:
    """A tokenizer for texts like "3 17 4": each number is a token."""

    def tokenize(self, strings):
        return tf.strings.to_number(tf.strings.split(strings), tf.int32)


def sequences(*examples, **arguments):
    arguments = {"max_length": 12, **arguments}
    found = gpt_sequences(examples, Numbers(), V, **arguments)
    assert all(ids.dtype == np.int32 for example in found for ids in example)
    return [[ids.tolist() for ids in example] for example in found]


def test_each_kind_of_example_has_its_sequences():
    pair = TaskExample(("1 2", "3"), "x")
    assert sequences(TaskExample(("4 5 6",), "a"), pair) == [
        [[START, 4, 5, 6, EXTRACT]],
        [[START, 1, 2, DELIMITER, 3, EXTRACT]],
    ]
    assert sequences(pair, both_orders=True) == [
        [[START, 1, 2, DELIMITER, 3, EXTRACT], [START, 3, DELIMITER, 1, 2, EXTRACT]]
    ]
    assert sequences(TaskExample(("7",), 0, ("1", "2 3", ""))) == [
        [
            [START, 7, DELIMITER, 1, EXTRACT],
            [START, 7, DELIMITER, 2, 3, EXTRACT],
            [START, 7, DELIMITER, EXTRACT],
        ]
    ]


@pytest.mark.parametrize("max_length", range(5, 16))
def test_the_longest_text_is_cut_first(max_length):
    rng = np.random.default_rng(max_length)
    for _ in range(20):
        first, second = (list(rng.integers(0, V, rng.integers(1, 10))) for _ in range(2))
        texts = tuple(" ".join(map(str, text)) for text in (first, second))
        (((*got,),),) = sequences(TaskExample(texts, "x"), max_length=max_length)
        while len(first) + len(second) + 3 > max_length:
            (first if len(first) > len(second) else second).pop()
        assert got == [START, *first, DELIMITER, *second, EXTRACT]


def test_sequences_that_cannot_be_made():
    pair = TaskExample(("1 2", "3"), "x")
    with pytest.raises(ValueError, match="max_length=4 leaves 1 tokens for 2 texts"):
        sequences(pair, max_length=4)
    with pytest.raises(ValueError, match=r"examples\[1\] has 1 texts and 0 choices"):
        sequences(pair, TaskExample(("1",), "x"), both_orders=True)
    with pytest.raises(ValueError, match="ids from 3 to 100; vocab_size=100 must be"):
        sequences(TaskExample(("3 100",), "x"))


def test_bucket_lengths_share_the_examples():
    rng = np.random.default_rng(0)
    many = [[[0] * n, [0]] for n in rng.integers(3, 71, 500)]
    sizes = np.array([len(example[0]) for example in many])
    for count in (1, 2, 5):
        lengths = bucket_lengths(many, count)
        assert len(lengths) == count and lengths[-1] == sizes.max()
        assert all(n % 4 == 0 for n in lengths[:-1])
        members = np.bincount(np.searchsorted(lengths, sizes))
        np.testing.assert_allclose(members, 500 / count, rtol=0.25)
    assert bucket_lengths([[[0] * 5]], 8) == [5]
    assert bucket_lengths([[[0] * n] for n in (1, 2, 3, 9)], 4, 4) == [4, 9]
    with pytest.raises(ValueError, match="count=0 and multiple=4 must be 1 or more"):
        bucket_lengths(many, 0)


SIZES = [(3, 5), (1, 1), (8, 2), (4, 4), (2, 7), (6, 6), (1, 3)]  # tokens in the two sequences


def examples():
    """Sequences that tell where they come from: example n has the tokens 10 n + 1, ..."""
    return [[list(range(10 * n + 1, 10 * n + 1 + k)) for k in ks] for n, ks in enumerate(SIZES)]


def make(labels=None, lengths=(4, 6, 9), **arguments):
    labels = list(range(len(SIZES))) if labels is None else labels
    return GPTTaskBatches(examples(), labels, batch_size=2, lengths=lengths, **arguments)


def test_every_epoch_has_every_example_once():
    batches = make()
    assert batches.steps_per_epoch == 4  # 3, 2 and 2 examples: 2 + 1 + 1 batches
    orders = []
    held_out = [{k: v.numpy() for k, v in b.items()} for b in batches.evaluation_batches()]
    epochs = [[batches.batch(4 * epoch + n) for n in range(4)] for epoch in range(2)]
    for epoch in [*epochs, held_out]:
        found = []
        for batch in epoch:
            *rows, length = batch["input_word_ids"].shape
            assert rows == [2, 2] and length in (4, 6, 9)
            for ids, mask, extract, label, weight in zip(
                *(batch[k] for k in batch), strict=True
            ):
                number = int(label)
                assert length == min(n for n in (4, 6, 9) if n >= max(SIZES[number]))
                for row, want in enumerate(examples()[number]):
                    size = len(want)
                    assert list(ids[row]) == want + [0] * (length - size)
                    assert list(mask[row]) == [1] * size + [0] * (length - size)
                    assert extract[row] == size - 1
                if weight:
                    assert weight == 1
                    found.append(number)
        assert sorted(found) == list(range(len(SIZES)))
        orders.append(found)
    assert orders[0] != orders[1]


def test_batches_depend_on_data_seed_and_step_only():
    def equal(a, b):
        return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)

    late = [make(seed=3).batch(step) for step in range(6, 12)]
    batches = make(seed=3)
    early = [batches.batch(step) for step in range(12)]
    assert all(equal(a, b) for a, b in zip(early[6:], late, strict=True))
    for step, batch in enumerate(batches.dataset(6).take(6), 6):
        assert equal({k: v.numpy() for k, v in batch.items()}, early[step])
    assert not all(equal(a, make(seed=4).batch(n)) for n, a in enumerate(early))


def test_shapes_and_types():
    specs = make(lengths=None).dataset().element_spec
    assert specs["input_word_ids"].shape == specs["input_mask"].shape == [2, 2, 8]
    assert specs["extract_positions"].shape == [2, 2]
    assert specs["labels"].dtype == tf.int32 and specs["labels"].shape == [2]
    assert make().dataset().element_spec["input_mask"].shape.as_list() == [2, 2, None]
    scores = make(labels=[n / 2 for n in range(len(SIZES))], lengths=None)
    assert scores.dataset().element_spec["labels"].dtype == tf.float32
    labels = {float(x) for step in range(4) for x in scores.batch(step)["labels"]}
    assert labels == {n / 2 for n in range(len(SIZES))}


@pytest.mark.parametrize(
    "sequences, labels, arguments, message",
    [
        ([], [], {}, "sequences has 0 examples and labels 0"),
        ([[[1]]], [0, 1], {}, "sequences has 1 examples and labels 2"),
        ([[[1]], [[1], [2]]], [0, 1], {}, r"sequences\[1\] has 2 sequences, sequences\[0\] 1"),
        ([[]], [0], {}, r"sequences\[0\] has 0 sequences"),
        ([[[1]], [[]]], [0, 1], {}, r"sequences\[1\] has an empty sequence"),
        ([[[1]], [[1, 2]]], [0, 1], {"lengths": [1]}, r"sequences\[1\] has 2 tokens, more than"),
        ([[[1]]], [0], {"lengths": []}, "lengths must be positive and increase"),
        ([[[1]]], [-1], {}, "labels must be one float or one int, 0 or more"),
        ([[[1]]], ["a"], {}, "labels must be one float or one int"),
        ([[[1]]], [0], {"batch_size": 0}, "batch_size must be 1 or more; got 0"),
    ],
)
def test_wrong_arguments(sequences, labels, arguments, message):
    with pytest.raises(ValueError, match=message):
        GPTTaskBatches(sequences, labels, **{"batch_size": 2, **arguments})
