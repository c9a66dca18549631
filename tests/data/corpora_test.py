"""Corpora of tokens and of words: every document, sentence and word is found again."""

import numpy as np
import pytest

from tests.data.synthetic import WordTokenizer
from tests.text.characters_test import reference
from tfnlp.data import LanguageModelCorpus, TokenizedCorpus

VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "cat", "."]
DOCUMENTS = [["the cat ran .", "The  naïve\tcat"], ["cats ran", ". ."]]
EMPTY = [[" "], ["a b", "", "b"], [], ["  ", ""], ["a"], [" "]]


def build(documents, vocabulary=VOCABULARY, lexicon=None):
    return LanguageModelCorpus.build(documents, vocabulary, lexicon, progress=False)


def tokenized(documents, words):
    return TokenizedCorpus.build(iter(documents), WordTokenizer(words), progress=False)


def check(corpus, ids, names, documents):
    """`names` are what `ids` stand for."""
    assert ids.dtype == np.int32
    assert corpus.sentence_starts.dtype == corpus.document_starts.dtype == np.int64
    words = [[sentence.split() for sentence in document] for document in documents]
    found = [
        [
            [names[i] for i in ids[slice(*corpus.sentence_starts[s : s + 2])]]
            for s in range(*corpus.document_starts[d : d + 2])
        ]
        for d in range(len(corpus.document_starts) - 1)
    ]
    assert found == words
    assert corpus.num_documents == len(words)
    assert corpus.num_sentences == sum(map(len, words))
    assert len(ids) == sum(len(s) for document in words for s in document)


def check_words(corpus, documents):
    check(corpus, corpus.ids, corpus.lexicon, documents)
    assert corpus.num_tokens == corpus.num_words + corpus.num_sentences
    assert len(set(corpus.lexicon)) == len(corpus.lexicon)


@pytest.mark.parametrize("sizes", [[3, 1, 4], [1] * 4100, [1999, 1, 2000, 7]])
def test_every_token_is_found_again(sizes):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(50)]
    documents = [[" ".join(rng.choice(words, rng.integers(1, 6))) for _ in range(n)] for n in sizes]
    corpus = tokenized(documents, words)
    check(corpus, corpus.tokens, [None] * 5 + words, documents)
    assert corpus.num_tokens == len(corpus.tokens)


def test_what_has_no_words_is_left_out():
    corpus = tokenized(EMPTY, ["a", "b"])
    check(corpus, corpus.tokens, [None] * 5 + ["a", "b"], [["a b", "b"], ["a"]])
    check_words(build(iter(EMPTY)), [["a b", "b"], ["a"]])
    for documents in ([], [[" "], ["", "  "]]):
        with pytest.raises(ValueError, match="corpus"):
            tokenized(documents, ["a"])


def test_words_by_hand():
    corpus = build(DOCUMENTS)
    assert corpus.lexicon == [*VOCABULARY, "ran", "The", "naïve", "cats"]
    assert corpus.ids.tolist() == [3, 4, 6, 5, 7, 8, 4, 9, 6, 5, 5]
    assert (corpus.begin_id, corpus.end_id, corpus.unknown_id) == (0, 1, 2)
    assert (corpus.num_tokens, corpus.vocab_size) == (15, 6)
    check_words(corpus, DOCUMENTS)
    # Special words may stand anywhere.
    corpus = build([["the <UNK> cat"]], ["the", "</S>", "cat", "<S>", "<UNK>"])
    assert (corpus.begin_id, corpus.end_id, corpus.unknown_id) == (3, 1, 4)
    assert corpus.ids.tolist() == [0, 4, 2]


def test_held_out_text_shares_the_lexicon():
    train = build(DOCUMENTS)
    before = list(train.lexicon)
    held_out = build([["dogs ran", "the dogs"]], lexicon=train.lexicon)
    assert train.lexicon == before
    assert held_out.lexicon == [*before, "dogs"] and held_out.vocab_size == 6
    check_words(held_out, [["dogs ran", "the dogs"]])
    table = held_out.characters()
    np.testing.assert_array_equal(table[: len(before)], train.characters())


def test_characters_of_a_lexicon_of_several_chunks():
    words = [str(i) for i in range(140_000)]
    corpus = build([[" ".join(words), "naïve " + "x" * 60]])
    table = corpus.characters()
    assert table.dtype == np.int16 and table.shape == (len(corpus.lexicon), 50)
    for i in [0, 5, 65_535, 65_536, 65_537, 131_071, 131_072, len(table) - 1]:
        assert table[i].tolist() == reference(corpus.lexicon[i])
    assert (table[:, 0] == 259).all() and len(table) == 140_008


@pytest.mark.parametrize(
    ("documents", "vocabulary", "lexicon", "message"),
    [
        ([[" "]], VOCABULARY, None, "corpus"),
        ([["a"]], ["<S>", "<UNK>"], None, "vocabulary lacks </S>"),
        ([["a"]], [*VOCABULARY, "cat"], None, "vocabulary .*'cat' twice"),
        ([["a"]], VOCABULARY, VOCABULARY[::-1], "lexicon"),
    ],
)
def test_errors(documents, vocabulary, lexicon, message):
    with pytest.raises(ValueError, match=message):
        build(documents, vocabulary, lexicon)
