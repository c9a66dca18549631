import numpy as np
import pytest
import tensorflow as tf

from tfnlp.text import MAX_CHARACTERS, NUM_CHARACTERS, character_ids

# bilm-tf's ids (256 to 260 there) after AllenNLP's shift by one.
SPECIAL = {"<S>": [257], "</S>": [258]}
EDGES = ["", "a", "<S>", "</S>", "<s>", "<S> ", "<UNK>", "naïve", "日本語", "🙂", "a\0b", "\0"]
EDGES += ["x" * n for n in (47, 48, 49, 50, 200)]
# The cut after 48 bytes falls after each byte of a character in turn.
EDGES += ["x" * (48 - n) + "🙂é" for n in range(6)]


def reference(word, width=50):
    """One word's ids, byte by byte."""
    word = word if isinstance(word, bytes) else word.encode()
    ids = SPECIAL.get(word.decode(errors="replace"), [byte + 1 for byte in word][: width - 2])
    ids = [259, *ids, 260]
    return ids + [261] * (width - len(ids))


def test_known_words():
    ids = character_ids(tf.constant(["cat", "é", ""])).numpy()
    assert ids.shape == (3, 50) and ids.dtype == np.int32
    assert ids[:, :6].tolist() == [
        [259, 100, 98, 117, 260, 261],
        [259, 196, 170, 260, 261, 261],
        [259, 260, 261, 261, 261, 261],
    ]
    assert (ids[:, 6:] == 261).all()
    assert (MAX_CHARACTERS, NUM_CHARACTERS) == (50, 262)


@pytest.mark.parametrize("width", [3, 8, 50, 64])
def test_edges(width):
    expected = [reference(word, width) for word in EDGES]
    assert character_ids(tf.constant(EDGES), width).numpy().tolist() == expected


@pytest.mark.parametrize("shape", [[], [2, 12], [0], [2, 0], [4, 1, 3, 2]])
@pytest.mark.parametrize("trim", [None, 2])
def test_any_shape(shape, trim):
    size = int(np.prod(shape))
    words = [f"{'w' * (i % 7)}{i}" for i in range(size)]
    ids = character_ids(tf.reshape(tf.constant(words, tf.string, [size]), shape), trim=trim).numpy()
    width = 50 if trim is None else 2 + trim + max(map(len, words), default=0)
    expected = np.array([reference(word, width) for word in words], np.int32)
    np.testing.assert_array_equal(ids, expected.reshape([*shape, width]))


@pytest.mark.parametrize("trim", [0, 7, 60])
@pytest.mark.parametrize(
    ("words", "longest"),
    [
        (["", ""], 0),
        (["<S>", "</S>"], 1),  # one character each
        (["<S>", "", "ab"], 2),
        (["x" * 48, "a"], 48),
        (["x" * 300], 48),
    ],
)
def test_trimming_cuts_padding_only(words, longest, trim):
    ids = character_ids(tf.constant(words), trim=trim).numpy()
    width = min(50, longest + 2 + trim)
    whole = np.array([reference(word) for word in words])
    np.testing.assert_array_equal(ids, whole[:, :width])
    assert (whole[:, width:] == 261).all()


@pytest.mark.slow
def test_static_shape():
    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.string)])
    def shapes(words):
        assert character_ids(words).shape.as_list() == [None, 4, 50]
        assert character_ids(words, 20).shape.as_list() == [None, 4, 20]
        assert character_ids(words, trim=3).shape.as_list() == [None, 4, None]
        return character_ids(words)

    assert shapes(tf.fill([2, 4], "a")).shape == [2, 4, 50]


@pytest.mark.parametrize("words", [[1, 2], tf.ragged.constant([["a"], []])])
def test_what_is_no_dense_tensor_of_strings(words):
    with pytest.raises((ValueError, TypeError)):
        character_ids(words)
