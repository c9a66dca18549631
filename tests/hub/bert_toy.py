"""A vocabulary of a few words, and BERTs of a few hundred weights for it."""

import numpy as np

from tfnlp import models
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer

WORDS = [*SPECIAL_TOKENS, "the", "a", "cat", "dog", "sat", "ran", "to", "##s"]
POSITIONS, H = 24, 16


def tokenizer():
    return WordPieceTokenizer(WORDS)


def encoder(layers=2, dropout=0.0, seed=0, **arguments):
    made = models.bert(
        len(WORDS), layers, H, 2, 32, POSITIONS, dropout=dropout, attention_dropout=dropout,
        **arguments,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    for variable in made.trainable_variables:  # biases too, so that nothing hides in a zero
        variable.assign(rng.normal(0, 0.3, variable.shape))
    return made
