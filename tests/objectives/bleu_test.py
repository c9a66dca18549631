"""BLEU against its definition in plain Python."""

import collections
import math

import pytest

from tfnlp.objectives.translation import bleu_by_length, corpus_bleu

TRANSLATIONS = [
    "the cat sat on the mat today",
    "a dog runs through the green park",
    "two men are playing music on a stage at night",
]
REFERENCES = [
    "the cat sat on the mat",
    "a brown dog runs through the green park",
    "two men play music on a stage at night",
]


def ngrams(words, n):
    return collections.Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def bleu(translations, references):
    """Papineni et al. 2002, section 2.3, of words between spaces."""
    pairs = [(t.split(), r.split()) for t, r in zip(translations, references, strict=True)]
    logs = []
    for n in range(1, 5):
        counted = [(ngrams(t, n), ngrams(r, n)) for t, r in pairs]
        hits = sum(sum((a & b).values()) for a, b in counted)
        logs.append(math.log(hits / sum(sum(a.values()) for a, _ in counted)))
    c, r = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    return 100 * min(1.0, math.exp(1 - r / c)) * math.exp(sum(logs) / 4)


def test_corpus_bleu_is_its_definition():
    score, signature = corpus_bleu(TRANSLATIONS, REFERENCES)
    assert score == pytest.approx(bleu(TRANSLATIONS, REFERENCES), abs=1e-9)
    assert "tok:13a" in signature and "case:mixed" in signature
    short = [" ".join(t.split()[:-1]) for t in REFERENCES]  # the brevity penalty counts
    expected = bleu(short, REFERENCES)
    assert corpus_bleu(short, REFERENCES)[0] == pytest.approx(expected, abs=1e-9)
    assert expected < 95


def test_groups_hold_every_sentence_once():
    sources = ["a b c d", "a b c d e", "a b c d e f g"]
    rows = bleu_by_length(sources, TRANSLATIONS, REFERENCES, groups=2)
    assert [row[:3] for row in rows] == [(4, 5, 2), (6, 7, 1)]
    assert rows[0].bleu == pytest.approx(bleu(TRANSLATIONS[:2], REFERENCES[:2]), abs=1e-9)
    assert rows[1].bleu == pytest.approx(bleu(TRANSLATIONS[2:], REFERENCES[2:]), abs=1e-9)
    same = bleu_by_length(["a"] * 3, TRANSLATIONS, REFERENCES)
    assert len(same) == 1 and same[0].count == 3
