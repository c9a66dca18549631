import numpy as np
import pytest

from tests.text.characters_test import reference
from tfnlp.data import LanguageModelCorpus

VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "cat", "."]
DOCUMENTS = [["the cat ran .", "The  naïve\tcat"], ["cats ran", ". ."]]


def build(documents, vocabulary=VOCABULARY, lexicon=None):
    return LanguageModelCorpus.build(documents, vocabulary, lexicon, progress=False)


def check(corpus, documents):
    """Every document, sentence and word is found again."""
    assert corpus.ids.dtype == np.int32
    assert corpus.sentence_starts.dtype == corpus.document_starts.dtype == np.int64
    words = [[sentence.split() for sentence in document] for document in documents]
    found = [
        [
            [corpus.lexicon[i] for i in corpus.ids[slice(*corpus.sentence_starts[s : s + 2])]]
            for s in range(*corpus.document_starts[d : d + 2])
        ]
        for d in range(len(corpus.document_starts) - 1)
    ]
    assert found == words
    assert corpus.num_documents == len(words)
    assert corpus.num_sentences == sum(map(len, words))
    assert corpus.num_words == sum(len(s) for document in words for s in document)
    assert corpus.num_tokens == corpus.num_words + corpus.num_sentences
    assert len(set(corpus.lexicon)) == len(corpus.lexicon)


def test_by_hand():
    corpus = build(DOCUMENTS)
    assert corpus.lexicon == [*VOCABULARY, "ran", "The", "naïve", "cats"]
    assert corpus.vocab_size == 6
    assert corpus.ids.tolist() == [3, 4, 6, 5, 7, 8, 4, 9, 6, 5, 5]
    assert corpus.sentence_starts.tolist() == [0, 4, 7, 9, 11]
    assert corpus.document_starts.tolist() == [0, 2, 4]
    assert (corpus.begin_id, corpus.end_id, corpus.unknown_id) == (0, 1, 2)
    assert corpus.num_tokens == 15
    check(corpus, DOCUMENTS)


def test_special_words_may_stand_anywhere():
    corpus = build([["the <UNK> cat"]], ["the", "</S>", "cat", "<S>", "<UNK>"])
    assert (corpus.begin_id, corpus.end_id, corpus.unknown_id) == (3, 1, 4)
    assert corpus.ids.tolist() == [0, 4, 2]


def test_what_has_no_words_is_dropped():
    documents = [[" "], ["a b", "", "b"], [], ["  ", ""], ["a"], [" "]]
    check(build(iter(documents)), [["a b", "b"], ["a"]])


def test_held_out_text_shares_the_lexicon():
    train = build(DOCUMENTS)
    before = list(train.lexicon)
    held_out = build([["dogs ran", "the dogs"]], lexicon=train.lexicon)
    assert train.lexicon == before
    assert held_out.lexicon == [*before, "dogs"] and held_out.vocab_size == 6
    check(held_out, [["dogs ran", "the dogs"]])
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
