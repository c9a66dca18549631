"""The notebook that tells the story from word vectors to BERT, at toy size."""

import collections
import math
import re

import numpy as np
import pytest

from tfnlp import data
from tfnlp.text import split_words

pytest.importorskip("nbclient")
from tests.colab.notebooks import is_drawn, numbers, pictures, run_notebook, text  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
MODELS = ("ELMo", "GPT", "BERT")


def parts():
    """Training and held-out sentences, lists of words."""
    chapters = list(data.read_documents("book:the_secret_garden", paragraphs=True))
    for part in data.split_documents(chapters, 0.1, seed=0):
        yield [
            split_words(sentence).lower().split()
            for chapter in part
            for paragraph in chapter
            for sentence in data.split_sentences(paragraph)
        ]


def unigram_bits(train, held_out, size):
    """Of an add-one unigram over words and ends of sentences; `size` words, marks included."""
    counts = collections.Counter(word for words in train for word in words)
    kept = sorted(counts, key=lambda word: (-counts[word], word))[: size - 3]
    totals = collections.Counter({word: counts[word] for word in kept})
    totals["<UNK>"] = sum(counts.values()) - sum(totals.values())
    totals["</S>"] = len(train)
    tokens = [w if w in totals else "<UNK>" for words in held_out for w in words]
    tokens += ["</S>"] * len(held_out)
    mass = sum(totals.values()) + size
    return -sum(math.log2((totals[token] + 1) / mass) for token in tokens) / len(tokens)


def test_four_kinds_of_vectors_are_made_and_compared(tmp_path):
    notebook = run_notebook("word_vectors_to_bert", tmp_path)
    train, held_out = parts()

    (words,) = numbers(notebook, "corpus", r"([\d,]+) words")
    assert words == sum(map(len, train))
    for line in text(notebook, "static").splitlines()[1:]:
        asked, *near = line.split()
        assert len(set(near)) == 7 and asked not in near

    bits, by_frequency = {}, {}
    for name in MODELS:
        ((bits[name], by_frequency[name]),) = re.findall(
            r"([\d.]+) bits .*; by frequency ([\d.]+)", text(notebook, name.lower())
        )
        bits[name], by_frequency[name] = float(bits[name]), float(by_frequency[name])
        assert 1 < bits[name] < 12
    assert by_frequency["ELMo"] == pytest.approx(unigram_bits(train, held_out, 800), abs=0.006)

    # One list by counting, two for each of the others, which are not all the same.
    lists = [line.split() for line in text(notebook, "neighbours").splitlines()]
    assert [line[0] for line in lists] == ["counts", *(name for name in MODELS for _ in range(2))]
    near = {(line[0], n % 2): line[-6:] for n, line in enumerate(lists)}
    assert any(near[name, 0] != near[name, 1] for name in MODELS)

    # GPT does not see what comes after a word, BERT does.
    ahead = dict(re.findall(r"(\w+) +looks ahead with (\d+)%", text(notebook, "attention")))
    assert int(ahead["GPT"]) == 0 and int(ahead["BERT"]) > 10
    for tag in ("curves", "senses-picture", "attention", "mix"):
        assert [is_drawn(picture) for picture in pictures(notebook, tag)] == [True]

    agreements = np.array(numbers(notebook, "senses", r"(?<= )(\d\.\d\d)(?=[ ;\n])")).reshape(2, 10)
    assert (agreements >= 0).all() and (agreements <= 1).all()
    assert (agreements[:, 0] >= 0.5).all()  # the commoner of two senses

    # The table repeats what the cells before it said.
    rows = [line.rsplit(maxsplit=6) for line in text(notebook, "table").splitlines()[1:]]
    assert [row[0].split()[0] for row in rows] == ["counts", *MODELS]
    for place, (name, row) in enumerate(zip(MODELS, rows[1:], strict=True)):
        assert float(row[-4]) == pytest.approx(by_frequency[name] - bits[name], abs=0.011)
        best = agreements[:, 1 + 3 * place : 4 + 3 * place].max(1)
        assert [float(x) for x in row[-3:-1]] == pytest.approx(best)
        assert 0 <= float(row[-1]) <= 1
