"""Vectors of several strings: those of each string alone."""

import types

import numpy as np
import tensorflow as tf

from tfnlp import models
from tfnlp.families import strings
from tfnlp.hub import BertPreprocessorModule
from tfnlp.text import WordPieceTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
TEXTS = ["a b c", "", "h", "c d e f g h a b c d", "b a", "a " * 13, "e f g"]


def test_strings_are_encoded_as_each_alone(monkeypatch):
    monkeypatch.setattr(strings, "_TOKENS", 40)
    encoder = models.bert(len(WORDS), 2, 8, 2, 16, 16, initializer_range=0.5)
    tokenizer = WordPieceTokenizer(WORDS)
    loaded = types.SimpleNamespace(
        encoder=encoder, tokenizer=tokenizer, saved=False, config={"max_positions": 16}
    )
    monkeypatch.setattr(strings.fitting, "max_positions", lambda loaded: 16)
    vectors = strings.string_vectors(loaded, BertPreprocessorModule, special=2)
    found = vectors(TEXTS)
    assert list(found) == list(encoder.output)
    inputs = BertPreprocessorModule(tokenizer, 16)(tf.constant(TEXTS))
    for row, size in enumerate(inputs["input_mask"].numpy().sum(1)):
        alone = encoder({name: x[row : row + 1, :size] for name, x in inputs.items()})
        np.testing.assert_allclose(
            found["pooled_output"][row], alone["pooled_output"][0], atol=1e-5
        )
        for layer, want in zip(found["encoder_outputs"], alone["encoder_outputs"], strict=True):
            assert layer.shape == (len(TEXTS), 16, 8)
            np.testing.assert_allclose(layer[row, :size], want[0], atol=1e-5)
            assert not layer[row, size:].numpy().any()
