import numpy as np
import pytest

from tfnlp.data import LabelledBatches

SIZES = [3, 1, 5, 2, 9, 4, 5, 1, 2, 7, 3]
LENGTHS = [2, 5, 10]


def sentences(tags=True):
    """Word ids that tell where they come from, and labels that follow from them."""
    ids = np.arange(1, sum(SIZES) + 1)
    words = [part.tolist() for part in np.split(ids, np.cumsum(SIZES)[:-1])]
    return words, [[i % 4 for i in s] if tags else s[0] % 4 for s in words]


def make(tags=True, lengths=LENGTHS, layers=False, **arguments):
    words, labels = sentences(tags)
    if layers:  # the layers of word i are i + 1, i + 1 + 0.25, ...
        layers = (np.arange(1, sum(SIZES) + 1)[:, None, None] + np.arange(6).reshape(3, 2) / 4.0)
        arguments["layers"] = layers.astype("float16")
    return LabelledBatches(words, labels, batch_size=3, lengths=lengths, **arguments)


def real_sentences(batches, tags=True):
    """The sentences with a weight, as tuples; checks the batches on the way."""
    words, labels = sentences(tags)
    label_of = {tuple(w): value for w, value in zip(words, labels, strict=True)}
    found = []
    for batch in batches:
        assert batch["word_ids"].shape[0] == 3 and batch["word_ids"].shape[1] in LENGTHS
        for ids, label, weight in zip(
            batch["word_ids"], batch["labels"], batch["weights"], strict=True
        ):
            sentence = tuple(int(i) for i in ids if i)
            size = len(sentence)
            assert not ids[size:].any()  # padding on the right
            assert min(n for n in LENGTHS if n >= size) == len(ids)
            if tags:
                assert list(label[:size]) == label_of[sentence] and not label[size:].any()
                assert not weight[size:].any() and len(set(weight[:size])) == 1
            else:
                assert label == label_of[sentence]
            if np.max(weight) == 1:
                found.append(sentence)
            else:
                assert np.max(weight) == 0
    return found


@pytest.mark.parametrize("tags", [True, False])
def test_every_epoch_has_every_sentence_once(tags):
    batches = make(tags)
    everything = sorted(map(tuple, sentences()[0]))
    assert batches.steps_per_epoch == 5  # of 4, 5 and 2 sentences: 2 + 2 + 1 batches
    orders = []
    for epoch in range(3):
        steps = range(epoch * 5, epoch * 5 + 5)
        orders.append(real_sentences([batches.batch(step) for step in steps], tags))
        assert sorted(orders[-1]) == everything
    assert orders[0] != orders[1] != orders[2]
    held_out = [{k: v.numpy() for k, v in b.items()} for b in batches.evaluation_batches()]
    assert sorted(real_sentences(held_out, tags)) == everything


@pytest.mark.parametrize("layers", [False, True])
def test_batches_depend_on_data_seed_and_step_only(layers):
    def equal(a, b):
        return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)

    late = [make(layers=layers).batch(step) for step in range(7, 12)]
    batches = make(layers=layers)
    early = [batches.batch(step) for step in range(12)]  # other epochs were asked for before
    assert all(equal(a, b) for a, b in zip(early[7:], late, strict=True))
    for first in (0, 7):
        taken = batches.dataset(first).take(5)
        for step, batch in enumerate(taken, first):
            assert equal(batch, early[step])
    assert not all(equal(a, make(layers=layers, seed=1).batch(n)) for n, a in enumerate(early))


def test_layers_go_with_their_words():
    batches = make(layers=True)
    for step in range(5):
        batch = batches.batch(step)
        ids = batch["word_ids"][..., None, None]
        want = (ids + np.arange(6).reshape(3, 2) / 4.0) * (ids > 0)
        np.testing.assert_array_equal(batch["lm_layers"], want)


def test_one_length_is_a_static_shape():
    batches = make(lengths=None)
    assert batches.lengths == [9]
    specs = batches.dataset().element_spec
    assert specs["word_ids"].shape == [3, 9] and specs["weights"].shape == [3, 9]
    specs = make(tags=False, layers=True).dataset().element_spec
    assert specs["word_ids"].shape.as_list() == [3, None]
    assert specs["labels"].shape == [3]
    assert specs["lm_layers"].shape.as_list() == [3, None, 3, 2]


@pytest.mark.parametrize(
    "words, labels, arguments, message",
    [
        ([], [], {}, "word_ids has 0 sentences and labels 0"),
        ([[1]], [0, 1], {}, "word_ids has 1 sentences and labels 2"),
        ([[1], []], [0, 1], {}, r"word_ids\[1\] is empty"),
        ([[1], [2, 3]], [0, 1], {"lengths": [1]}, r"word_ids\[1\] has 2 words, more than"),
        ([[1]], [0], {"lengths": [2, 2]}, "lengths must be positive and increase"),
        ([[1], [2, 3]], [[0], [1]], {}, r"labels\[1\] has 1 tags for 2 words"),
        ([[0]], [0], {}, "word_ids must be 1 or more"),
        ([[1]], [-1], {}, "labels 0 or more"),
        ([[1, 2]], [0], {"layers": np.zeros([3, 2, 4])}, r"layers has shape \(3, 2, 4\)"),
        ([[1]], [0], {"batch_size": 0}, "batch_size must be 1 or more; got 0"),
        ([[1]], [0], {"seed": -1}, r"seed must lie in \[0, 2\^31\); got -1"),
    ],
)
def test_wrong_arguments(words, labels, arguments, message):
    with pytest.raises(ValueError, match=message):
        LabelledBatches(words, labels, **{"batch_size": 2, **arguments})
