"""A small ELMo, and what its module should say."""

import keras
import numpy as np

from tfnlp import models
from tfnlp.text import character_ids

P = 8
NAMES = ("word_emb", "lstm_outputs1", "lstm_outputs2", "elmo", "default")


def tiny(dropout=0.3, **arguments):
    """An encoder with all weights random, so that nothing hides in a zero or in equal scalars."""
    encoder = models.elmo(
        units=12,
        projection_size=P,
        embedding_size=4,
        filters=((1, 4), (2, 8), (5, 8)),
        num_highway=1,
        dropout=dropout,
        **arguments,
    )
    for variable in encoder.trainable_variables:
        variable.assign(keras.random.normal(variable.shape, stddev=0.4))
    return encoder


def expected(encoder, rows, training=False):
    """The model's outputs for lists of words: every word apart, over all 50 characters."""
    ids = np.zeros((len(rows), max(map(len, rows)), 50), "int32")
    for filled, row in zip(ids, rows, strict=True):
        if row:
            filled[: len(row)] = character_ids(row)
    return encoder({"character_ids": ids}, training=training)


def assert_equal(got, want, atol=2e-6):
    assert sorted(got) == sorted(NAMES)
    for name in NAMES:
        np.testing.assert_allclose(got[name], want[name], rtol=0, atol=atol, err_msg=name)
