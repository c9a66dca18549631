"""The notebook that pretrains an ELMo, at toy size."""

import collections
import math
import re

import numpy as np
import pytest
import tensorflow as tf

from tfnlp import data
from tfnlp.text import split_words

pytest.importorskip("nbclient")
from tests.colab.notebooks import is_drawn, numbers, pictures, run_notebook, text  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def unigram_perplexity(size):
    """Add-one unigram over the `size` words of the notebook's vocabulary, from counts of words."""
    parts = data.split_documents(data.read_documents("book:the_secret_garden"), 0.05, 0)
    train, held_out = (
        [split_words(sentence).split() for document in part for sentence in document]
        for part in parts
    )
    counts = collections.Counter(word for sentence in train for word in sentence)
    # Of equally frequent words the smaller comes first; three places are the marks'.
    kept = sorted(counts, key=lambda word: (-counts[word], word))[: size - 3]
    totals = collections.Counter({word: counts[word] for word in kept})
    totals["</S>"] = len(train)
    totals["<UNK>"] = sum(counts.values()) - sum(counts[word] for word in kept)
    tokens = [w if w in totals else "<UNK>" for s in held_out for w in s] + ["</S>"] * len(held_out)
    mass = sum(totals.values()) + size
    loss = sum(-math.log((totals[token] + 1) / mass) for token in tokens)
    return math.exp(loss / len(tokens))


def test_elmo_is_pretrained_looked_into_and_exported(tmp_path):
    notebook = run_notebook("pretrain_elmo", tmp_path)

    (counted,) = numbers(notebook, "baseline", r"perplexity (\d+)")
    assert counted == pytest.approx(unigram_perplexity(800), abs=0.51)
    first, last = numbers(notebook, "training", r"steps: (\d+)")
    assert last < 0.8 * first

    shown = text(notebook, "characters").splitlines()
    for line, word in zip(shown, ("garden", "gardening", "café"), strict=True):
        ids = [259, *(byte + 1 for byte in word.encode()), 260]
        assert line.split() == [word, *map(str, ids + [261] * (14 - len(ids)))]

    for line in text(notebook, "letters").splitlines():
        asked, *near = line.split()
        assert len(near) == len(set(near)) == 7 and asked not in near
    context = text(notebook, "context").splitlines()
    assert [bool(re.match(r"   \d\.\d\d  \.\.\. .*\blike\b", line)) for line in context] == [
        *(False, True, True, True, True) * 2
    ]
    for tag in ("curve", "picture"):
        assert [is_drawn(picture) for picture in pictures(notebook, tag)] == [True]

    module = tf.saved_model.load(str(tmp_path / "elmo/module"))
    outputs = module(tf.constant(["I would like to go .", "He should like to see it ."]))
    like = outputs["lstm_outputs1"].numpy()[:, 2]
    cosine = like[0] @ like[1] / np.prod(np.linalg.norm(like, axis=1))
    said = numbers(notebook, "load", r"sentences 1 and 2: ([\d.]+)")
    assert said == [pytest.approx(cosine, abs=0.0006)]
    assert "gradients: True" in text(notebook, "load")
