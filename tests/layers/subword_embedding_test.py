"""Word vectors out of n-grams against a loop over words."""

import keras
import numpy as np
import tensorflow as tf

from tests.layers.gradients import gradients, without_rows
from tfnlp.layers import SubwordEmbedding
from tfnlp.layers.word_embedding import plain_sums, sums_of_existing

V, H, BUCKETS = 5, 4, 6
SUBWORDS = [[0, 3, 3], [], [5], [1, 2], [4, 0, 2]]  # of each word; one comes twice


def make():
    layer = SubwordEmbedding(V, H, BUCKETS, most_subwords=3)
    layer.build()
    table = np.random.default_rng(0).standard_normal((V + BUCKETS, H)).astype("float32")
    layer.embeddings.assign(table)
    layer.set_subwords(np.concatenate(SUBWORDS).astype(int), np.cumsum([0, *map(len, SUBWORDS)]))
    return layer, table


IDS = np.array([[4, 0, 1], [0, 2, 3]], "int32")


def rows(word):
    return [word, *(V + bucket for bucket in SUBWORDS[word])]


def test_a_vector_is_the_mean_of_a_words_rows():
    layer, table = make()
    expected = [[table[rows(word)].mean(0) for word in line] for line in IDS]
    np.testing.assert_allclose(layer(IDS), expected, rtol=1e-5, atol=1e-6)


def test_every_row_gets_the_whole_gradient():
    layer, _ = make()
    upstream = np.random.default_rng(1).standard_normal((*IDS.shape, H)).astype("float32")
    _, (gradient,) = gradients(lambda: layer(IDS), [layer.embeddings], upstream)
    assert isinstance(gradient, tf.IndexedSlices)  # rows, not the table
    expected = np.zeros((V + BUCKETS, H))
    for word, share in zip(IDS.ravel(), upstream.reshape(-1, H), strict=True):
        for row in rows(word):
            expected[row] += share
    np.testing.assert_allclose(tf.convert_to_tensor(gradient), expected, rtol=1e-5, atol=1e-6)


def test_words_have_no_subwords_until_they_are_said():
    layer = SubwordEmbedding(V, H, BUCKETS, most_subwords=3)
    layer.build()
    np.testing.assert_allclose(layer(IDS), layer.embeddings.numpy()[IDS], atol=1e-7)


def test_sums_of_all_places_equal_those_of_existing_ones():
    rng = np.random.default_rng(2)
    table = keras.Variable(rng.standard_normal((9, H)).astype("float32"))
    rows = tf.constant([[3, -1, 8, 3], [0, -1, -1, -1], [8, 7, 0, -1]])
    upstream = rng.standard_normal((3, H)).astype("float32")
    found = []
    for add_up in (plain_sums, sums_of_existing):
        sums, slopes = gradients(lambda f=add_up: f(table, rows), [table], upstream)
        found.append((sums, *without_rows(slopes)))
    for plain, existing in zip(*found, strict=True):
        np.testing.assert_allclose(plain, existing, rtol=1e-6, atol=1e-6)
