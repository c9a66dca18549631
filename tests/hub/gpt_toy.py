"""Vocabularies learnt from a few lines, and GPTs of a few hundred weights for them."""

import functools

from tests.models.gpt_reference import talkative
from tfnlp.text import gpt_tokenizer, train_bpe

TEXTS = ["the cat sat on the mat", "the dog ran to the cat", "北京 naïve 🙂 a mat , the end .", "é"]
POSITIONS = 24
KINDS = ("gpt2", "gpt")


@functools.cache
def vocabulary(kind):
    return train_bpe(TEXTS * 3, {"gpt2": 290, "gpt": 90}[kind], kind)


@functools.cache
def tokenizer(kind="gpt2"):
    return gpt_tokenizer(vocabulary(kind))


def model(kind="gpt2", **arguments):
    arguments = {"max_positions": POSITIONS, "norm_first": True, **arguments}
    return talkative(vocab_size=tokenizer(kind).vocab_size, **arguments)
