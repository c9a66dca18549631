"""What the tests of `SentencePairs` share: synthetic pairs, and reading a batch back."""

import numpy as np

from tests.data.synthetic import make_corpus
from tfnlp.data import SentencePairs


def make_pairs(document_sizes=(40,) * 30, longest=40, **arguments):
    corpus, tokenizer = make_corpus(document_sizes, longest=longest)
    return SentencePairs(corpus, tokenizer, **{"batch_size": 8, "seq_length": 64, **arguments})


def as_numpy(batch):
    return {key: value.numpy() for key, value in batch.items()}


def unmasked(batch):
    """Token ids of a batch with the answers filled in where they were masked."""
    ids = batch["input_word_ids"].copy()
    for row, position, answer, weight in zip(
        ids,
        batch["masked_lm_positions"],
        batch["masked_lm_ids"],
        batch["masked_lm_weights"],
        strict=True,
    ):
        row[position[weight > 0]] = answer[weight > 0]
    return ids


def places(corpus, token):
    """(document, sentence) of a position in the corpus."""
    sentence = np.searchsorted(corpus.sentence_starts, token, "right") - 1
    return np.searchsorted(corpus.document_starts, sentence, "right") - 1, sentence
