"""Look-up of words against a dict."""

import pathlib
import shutil

import numpy as np
import tensorflow as tf

from tfnlp.text.words import WordIndex

WORDS = ["the", ".", "naïve", "北京", "a b", "\u00a0x", "#", "n't"]


def test_ids_are_those_of_a_dict():
    index = WordIndex(WORDS)
    assert index.size == 2 + len(WORDS)
    numbers = {word: i + 2 for i, word in enumerate(WORDS)} | {"": 0}
    words = [
        "",
        "The",
        "the",
        "NAÏVE",
        "北京",
        "A b",
        " ",
        "dog",
        "\u00a0X",
        "N'T",
        "#",
        ".",
        "the ",
    ]
    got = index.ids(tf.constant(words))
    assert got.dtype == tf.int32
    assert got.numpy().tolist() == [numbers.get(word.lower(), 1) for word in words]
    square = index.ids(tf.constant([["the", ""], ["x", "."]]))
    np.testing.assert_array_equal(square, [[2, 0], [1, 3]])
    ragged = tf.ragged.map_flat_values(index.ids, tf.ragged.constant([["the"], [], ["?", "#"]]))
    assert ragged.to_list() == [[2], [], [1, 8]]


def test_a_list_without_words():
    index = WordIndex([])
    assert index.size == 2
    np.testing.assert_array_equal(index.ids(tf.constant(["", "a"])), [0, 1])


def test_the_list_travels_with_a_saved_model(tmp_path):
    index = WordIndex(WORDS)
    source = pathlib.Path(index.asset.asset_path.numpy().decode())
    module = tf.Module()
    module.index = index
    module.ids = tf.function(index.ids, input_signature=[tf.TensorSpec([None], "string")])
    tf.saved_model.save(module, str(tmp_path / "saved"))
    want = index.ids(tf.constant(["The", "x", ""])).numpy()
    del index, module
    shutil.rmtree(source.parent, ignore_errors=True)
    shutil.move(tmp_path / "saved", tmp_path / "moved")
    loaded = tf.saved_model.load(str(tmp_path / "moved"))
    np.testing.assert_array_equal(loaded.ids(tf.constant(["The", "x", ""])), want)
