import numpy as np
import pytest

from tests.data.synthetic import WordTokenizer
from tfnlp.data import TokenizedCorpus


def check(corpus, documents, tokenizer):
    """Every document and sentence is found again between the borders."""
    assert corpus.tokens.dtype == np.int32
    assert corpus.sentence_starts.dtype == corpus.document_starts.dtype == np.int64
    assert corpus.num_documents == len(documents)
    assert corpus.num_sentences == sum(map(len, documents)) == len(corpus.sentence_starts) - 1
    assert corpus.num_tokens == corpus.sentence_starts[-1] == len(corpus.tokens)
    assert corpus.document_starts[0] == corpus.sentence_starts[0] == 0
    for d, document in enumerate(documents):
        first, end = corpus.document_starts[d : d + 2]
        for s, sentence in zip(range(first, end), document, strict=True):
            start, stop = corpus.sentence_starts[s : s + 2]
            expected = [tokenizer.ids[word] for word in sentence.split()]
            assert corpus.tokens[start:stop].tolist() == expected


@pytest.mark.parametrize("sizes", [[3, 1, 4], [1] * 4100, [1999, 1, 2000, 7]])
def test_build_finds_every_sentence_again(sizes):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(50)]
    documents = [[" ".join(rng.choice(words, rng.integers(1, 6))) for _ in range(n)] for n in sizes]
    tokenizer = WordTokenizer(words)
    check(TokenizedCorpus.build(iter(documents), tokenizer, progress=False), documents, tokenizer)


def test_build_drops_what_has_no_tokens():
    tokenizer = WordTokenizer(["a", "b"])
    documents = [[" "], ["a b", "", "b"], [], ["  ", ""], ["a"], [" "]]
    corpus = TokenizedCorpus.build(documents, tokenizer, progress=False)
    check(corpus, [["a b", "b"], ["a"]], tokenizer)


@pytest.mark.parametrize("documents", [[], [[" "], ["", "  "]]])
def test_build_needs_a_token(documents):
    with pytest.raises(ValueError, match="corpus"):
        TokenizedCorpus.build(documents, WordTokenizer(["a"]), progress=False)
