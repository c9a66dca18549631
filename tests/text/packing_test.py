import numpy as np
import pytest
import tensorflow as tf

from tfnlp.text import pack_segments
from tfnlp.text.strings import join_rows

CLS, SEP, PAD = 101, 102, 7
NAMES = ("input_word_ids", "input_mask", "input_type_ids")


def ragged(rows):
    return tf.ragged.constant(rows, dtype=tf.int32, ragged_rank=1)


def pack_row(segments, length, separators=1):
    """One row, a token at a time: every segment in turn, until nothing fits or is left."""
    room = length - 2 - separators * (len(segments) - 1)
    kept = [[] for _ in segments]
    while room and any(len(k) < len(s) for k, s in zip(kept, segments, strict=True)):
        for k, s in zip(kept, segments, strict=True):
            if room and len(k) < len(s):
                k.append(s[len(k)])
                room -= 1
    ids, types = [CLS], [0]
    for index, k in enumerate(kept):
        count = separators if index + 1 < len(kept) else 1
        ids += k + [SEP] * count
        types += [index if separators == 1 else 0] * (len(k) + count)
    padding = length - len(ids)
    mask = [1] * len(ids) + [0] * padding
    return ids + [PAD] * padding, mask, types + [0] * padding


def random_segments(rng, batch, count, longest):
    sizes = rng.integers(0, longest + 1, [count, batch])
    return [[rng.integers(200, 999, size).tolist() for size in row] for row in sizes]


@pytest.mark.parametrize("separators", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("length", [6, 14, 64])
def test_equals_plain_python(count, length, separators):
    if length < 2 + separators * (count - 1):
        pytest.skip("no room for the special tokens")
    rng = np.random.default_rng(count * 100 + length)
    segments = random_segments(rng, 200, count, 20)
    packed = pack_segments([ragged(s) for s in segments], length, CLS, SEP, PAD, separators)
    rows = [pack_row(row, length, separators) for row in zip(*segments, strict=True)]
    for index, name in enumerate(NAMES):
        assert packed[name].dtype == tf.int32 and packed[name].shape == [200, length]
        np.testing.assert_array_equal(packed[name], [row[index] for row in rows], name)


def test_words_are_merged():
    words = tf.ragged.constant([[[1, 2], [3]], [[], [4]]], dtype=tf.int32)
    flat = ragged([[1, 2, 3], [4]])
    for a, b in zip(
        pack_segments([words, flat], 8, CLS, SEP, PAD).values(),
        pack_segments([flat, flat], 8, CLS, SEP, PAD).values(),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_words_of_one_number_of_pieces_are_merged():
    # Their innermost dimension is dense.
    words = tf.RaggedTensor.from_row_lengths(tf.constant([[1, 2], [3, 4], [5, 6]]), [2, 1])
    packed = pack_segments([words], 6, CLS, SEP, PAD)["input_word_ids"]
    assert packed.numpy().tolist() == [[CLS, 1, 2, 3, 4, SEP], [CLS, 5, 6, SEP, PAD, PAD]]


@pytest.mark.slow
def test_in_a_dataset_shapes_are_static():
    dataset = tf.data.Dataset.from_tensor_slices(ragged([[1, 2, 3]])).batch(8)
    dataset = dataset.map(lambda x: pack_segments([x], 4, CLS, SEP, PAD))
    for name in NAMES:
        assert dataset.element_spec[name] == tf.TensorSpec([None, 4], tf.int32)
    assert next(iter(dataset))["input_word_ids"].numpy().tolist() == [[CLS, 1, 2, SEP]]


def test_length_as_a_tensor():
    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def pack(length):
        return pack_segments([ragged([[1, 2, 3]])], length, CLS, SEP, PAD)["input_word_ids"]

    assert pack(4).numpy().tolist() == [[CLS, 1, 2, SEP]]
    assert pack(6).numpy().tolist() == [[CLS, 1, 2, 3, SEP, PAD]]


def test_a_length_without_room_for_special_tokens():
    for length, separators in ((2, 1), (3, 2)):
        with pytest.raises(ValueError, match=f"seq_length={length}"):
            pack_segments([ragged([[1]])] * 2, length, CLS, SEP, PAD, separators=separators)


@pytest.mark.parametrize(
    "rows", [[], [[]], [[], []], [["a"], ["b", "", "c"]], [[], [], ["é", "b"], [], ["c"], [], []]]
)
def test_rows_of_strings_are_joined(rows):
    strings = tf.RaggedTensor.from_row_lengths(
        tf.constant(sum(rows, []), tf.string), [len(row) for row in rows] or tf.zeros([0], tf.int64)
    )
    wanted = ["".join(row).encode() for row in rows]
    assert join_rows(strings).numpy().tolist() == wanted
    narrow = strings.with_row_splits_dtype(tf.int32)
    assert tf.function(join_rows)(narrow).numpy().tolist() == wanted
