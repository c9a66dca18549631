"""A tokenizer of words, and corpora and pairs whose token ids tell where they come from."""

import numpy as np
import tensorflow as tf

from tfnlp.data import SentencePairs, TokenizedCorpus


class WordTokenizer:
    """What the data room asks of a tokenizer, on words between spaces."""

    pad_id, unk_id, cls_id, sep_id, mask_id = range(5)

    def __init__(self, words=(), vocab_size=None, is_continuation=None):
        self.ids = {word: 5 + index for index, word in enumerate(words)}
        self.vocab_size = vocab_size or 5 + len(self.ids)
        if is_continuation is None:
            is_continuation = np.zeros(self.vocab_size, bool)
        self.is_continuation = tf.constant(is_continuation)

    def tokenize(self, strings):
        rows = [[self.ids[w] for w in s.decode().split()] for s in strings.numpy()]
        return tf.ragged.constant(rows, dtype=tf.int32, ragged_rank=1)


def make_corpus(document_sizes, seed=0, longest=40):
    """A corpus of documents with so many sentences, and its tokenizer.

    The token at position i of the corpus has the id i + 5, so that every token of a batch says
    where it came from. Sentences have 1 to `longest` tokens.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, sum(document_sizes))
    corpus = TokenizedCorpus(
        tokens=np.arange(lengths.sum(), dtype=np.int32) + 5,
        sentence_starts=np.concatenate([[0], np.cumsum(lengths)]),
        document_starts=np.concatenate([[0], np.cumsum(document_sizes)]),
    )
    return corpus, WordTokenizer(vocab_size=5 + corpus.num_tokens)


def make_pairs(document_sizes=(40,) * 30, longest=40, **arguments):
    corpus, tokenizer = make_corpus(document_sizes, longest=longest)
    return SentencePairs(corpus, tokenizer, **{"batch_size": 8, "seq_length": 64, **arguments})


def as_numpy(batch):
    return {key: value.numpy() for key, value in batch.items()}


def unmasked(batch):
    """Token ids of a batch with the answers filled in where they were masked."""
    ids, used = batch["input_word_ids"].copy(), batch["masked_lm_weights"] > 0
    ids[np.nonzero(used)[0], batch["masked_lm_positions"][used]] = batch["masked_lm_ids"][used]
    return ids


def places(corpus, token):
    """(document, sentence) of a position in the corpus."""
    sentence = np.searchsorted(corpus.sentence_starts, token, "right") - 1
    return np.searchsorted(corpus.document_starts, sentence, "right") - 1, sentence
