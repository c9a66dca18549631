"""Words and their vectors: look-up, neighbours and errors."""

import numpy as np
import pytest

from tfnlp.text import Subwords, WordVectors

WORDS = ["king", "man", "woman", "queen", "apple", "nothing"]


def make(**more):
    # gender and royalty; "nothing" has no direction
    table = [[1, 1, 0], [1, 0, 0], [-1, 0, 0], [-1, 1, 0], [0, 0, 3], [0, 0, 0]]
    return WordVectors(WORDS, np.array(table, "float32"), **more)


def test_most_similar_is_the_cosine():
    vectors = make()
    unit = {"king": (2**-0.5, 2**-0.5, 0), "man": (1, 0, 0), "woman": (-1, 0, 0)}
    query = np.array(unit["king"]) - unit["man"] + unit["woman"]
    query /= np.linalg.norm(query)
    found = vectors.most_similar(["king", "woman"], ["man"], 3)
    assert [word for word, _ in found] == ["queen", "apple", "nothing"]
    want = [query @ (np.array([-1, 1, 0]) / 2**0.5), 0, 0]
    np.testing.assert_allclose([cosine for _, cosine in found], want, atol=1e-6)


def test_given_words_are_left_out():
    # The cosines of "apple" and "nothing" are exactly 0: the more frequent word is first.
    assert [w for w, _ in make().most_similar(["man"], topn=99)] == [
        "king", "apple", "nothing", "queen", "woman"
    ]  # fmt: skip
    assert len(make().most_similar(["king"], ["apple"], 99)) == 4


def test_words_and_vectors_are_read_as_those_of_gensim():
    """What gensim 4.4.0 returns for the same table (`KeyedVectors`)."""
    vectors = make()
    assert len(vectors) == 6 and list(vectors) == WORDS
    assert "queen" in vectors and "duke" not in vectors
    np.testing.assert_array_equal(vectors["queen"], [-1, 1, 0])
    np.testing.assert_array_equal(vectors[["man", "apple"]], [[1, 0, 0], [0, 0, 3]])
    assert vectors.similarity("king", "man") == pytest.approx(0.70710677)
    assert vectors.similarity("king", "queen") == pytest.approx(0)
    assert vectors.most_similar("king", topn=1) == [("man", pytest.approx(0.70710677))]
    found = vectors.most_similar(positive=["king", "woman"], negative=["man"], topn=1)
    assert found == [("queen", pytest.approx(0.9596830))]
    with pytest.raises(KeyError, match="'duke' is not among the 6 words"):
        vectors["duke"]


def test_subwords_give_unseen_words_vectors():
    subwords = Subwords(np.ones((5, 3), "float32"), 3, 3)
    vectors = make(subwords=subwords)
    np.testing.assert_allclose(vectors.vector("kingly"), [1, 1, 1])
    np.testing.assert_allclose(vectors.vector("king"), [1, 1, 0])
    assert vectors.most_similar(["kingly"], topn=1)[0][0] == "king"
    with pytest.raises(ValueError, match="too short"):
        vectors.vector("")
    with pytest.raises(ValueError, match="'kingly' is not among the 6 words"):
        make().vector("kingly")


@pytest.mark.parametrize(
    "words, said", [(["a", ""], "word 1"), (["a", "b", "a"], "'a' twice, as 0 and 2")]
)
def test_faulty_words(words, said):
    with pytest.raises(ValueError, match=said):
        WordVectors(words, np.zeros((len(words), 2), "float32"))


@pytest.mark.parametrize(
    "asked, said", [(([],), "at least one"), ((["king"], [], 0), "topn=0"), ((["kong"],), "'kong'")]
)
def test_faulty_questions(asked, said):
    with pytest.raises(ValueError, match=said):
        make().most_similar(*asked)
