"""Words and their vectors: look-up, neighbours, analogies and rank correlations, and errors."""

import numpy as np
import pytest

from tfnlp.data import read_analogies, read_similarities
from tfnlp.text import Subwords, WordVectors, answer_analogies, rate_pairs

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


COUNTRIES = [f"country{i}" for i in range(12)]
CAPITALS = [f"Capital{i}" for i in range(12)]
ADVERBS = [(f"adj{i}", f"adj{i}ly") for i in range(8)]


def make_vectors(**more):
    """Capitals are their countries plus a vector, adverbs their adjectives plus another; and noise.

    Some capitals occur in two spellings.
    """
    rng = np.random.default_rng(7)
    rows, words = [], []
    step, other = rng.standard_normal((2, 8)) * 2
    for country, capital in zip(COUNTRIES, CAPITALS, strict=True):
        base = rng.standard_normal(8)
        words += [country, capital]
        rows += [base, base + step + 0.5 * rng.standard_normal(8)]
    for one, adverb in ADVERBS:
        base = rng.standard_normal(8)
        words += [one, adverb]
        rows += [base, base + other + 0.9 * rng.standard_normal(8)]
    words += [f"capital{i}" for i in (0, 3, 5)]
    rows += [rows[2 * i + 1] + 0.1 * rng.standard_normal(8) for i in (0, 3, 5)]
    return WordVectors(words, np.array(rows, "float32"), **more)


def _pairs(names):
    return [f"{a} {b} {c} {d}" for a, b in names for c, d in names if a != c]


QUESTIONS = "\n".join(
    [": capitals", *_pairs(list(zip(COUNTRIES, CAPITALS, strict=True)))]
    + [": unseen", "country0 Capital0 nowhere Capital1", "country1 CAPITAL1 COUNTRY2 capital2"]
    + [": gram1-adverbs", *_pairs(ADVERBS), "adj0 adj0ly lonely alone"]
)
PAIRS = "\n".join(
    f"{a}\t{b}\t{score}"
    for a, b, score in zip(
        ["country0", "Country1", "adj3", "adj4", "nowhere", "capital5", "adj1", "adj2"],
        ["Capital0", "Capital1", "adj4", "adj5ly", "adj1", "country5", "country7", "CAPITAL4"],
        [9.5, 9.5, 4, 3, 8, 7.25, 1, 1],
        strict=True,
    )
)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "questions.txt").write_text(QUESTIONS)
    (tmp_path / "pairs.txt").write_text(PAIRS)
    return read_analogies(tmp_path / "questions.txt"), read_similarities(tmp_path / "pairs.txt")


# gensim 4.4 on the same: `KeyedVectors.evaluate_word_analogies(file, restrict_vocab=...,
# case_insensitive=True)`: (correct, asked) of capitals, unseen, gram1-adverbs and in all.
@pytest.mark.parametrize(
    "most_frequent, expected",
    [
        (None, [(74, 132), (1, 1), (28, 56), (103, 189)]),
        (30, [(77, 132), (1, 1), (2, 6), (80, 139)]),
    ],
)
@pytest.mark.parametrize("block", [1 << 24, 100])
def test_analogies_equal_gensims(most_frequent, expected, block, files, monkeypatch):
    monkeypatch.setattr("tfnlp.text.word_vectors._SCORES", block)
    got = answer_analogies(make_vectors(), files[0], most_frequent)
    assert list(got) == ["capitals", "unseen", "gram1-adverbs", "semantic", "syntactic", "total"]
    seen = [(a.correct, a.seen) for a in got.values()]
    assert [*seen[:3], seen[-1]] == expected
    assert [a.asked for a in got.values()] == [132, 2, 57, 134, 57, 191]
    for found in got.values():
        share = found.correct / found.seen if found.seen else np.nan
        assert found.accuracy == pytest.approx(share, nan_ok=True)


# gensim 4.4: `KeyedVectors.evaluate_word_pairs(file, case_insensitive=True)`.
def test_rank_correlation_equals_gensims(files):
    got = rate_pairs(make_vectors(), files[1])
    assert got.spearman == pytest.approx(0.545544725589981, abs=1e-6)
    assert (got.seen, got.asked) == (7, 8)


def test_subwords_leave_no_pair_out(files):
    subwords = Subwords(np.random.default_rng(1).standard_normal((50, 8)).astype("float32"))
    assert rate_pairs(make_vectors(subwords=subwords), files[1]).seen == 8


def test_undefined_correlation():
    vectors = WordVectors(["a", "b"], np.eye(2, dtype="float32"))
    for pairs in ([("a", "x", 1), ("b", "y", 2)], [("a", "b", 1), ("b", "a", 2)]):
        assert np.isnan(rate_pairs(vectors, pairs).spearman)


@pytest.mark.parametrize(
    "read, text, said",
    [
        (read_analogies, ": empty\n", "no questions"),
        (read_analogies, ": one\na b c d\n\na b c\n", "line 4"),
        (read_analogies, ": one\na b c d\n: one\n", "line 3"),
        (read_analogies, ":\na b c d\n", "line 1"),
        (read_similarities, "a b 1\n", "1 pairs"),
        (read_similarities, "a b 1\na b\n", "line 2"),
        (read_similarities, "a b 1\na b high\n", "line 2"),
        (read_similarities, "a b 1\na b nan\n", "line 2"),
    ],
)
def test_broken_sets(read, text, said, tmp_path):
    (tmp_path / "set.txt").write_text(text)
    with pytest.raises(ValueError, match=said) as error:
        read(tmp_path / "set.txt")
    assert "set.txt" in str(error.value)
    with pytest.raises(FileNotFoundError, match="gone.txt does not exist"):
        read(tmp_path / "gone.txt")


def test_other_formats(tmp_path):
    text = "Word 1,Word 2,Human (mean)\nlove,sex,6.77\ntiger,cat,7.35\n"
    (tmp_path / "set.txt").write_text(text)
    pairs = [("love", "sex", 6.77), ("tiger", "cat", 7.35)]
    assert read_similarities(tmp_path / "set.txt") == pairs
    (tmp_path / "set.txt").write_text("# of people\na b 1 2 3\n\nc\td\t2\n")
    assert read_similarities(tmp_path / "set.txt") == [("a", "b", 1), ("c", "d", 2)]
    (tmp_path / "set.txt").write_text("a b c d\n")
    assert read_analogies(tmp_path / "set.txt") == {"questions": [("a", "b", "c", "d")]}
