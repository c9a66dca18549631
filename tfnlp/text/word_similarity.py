"""Evaluation of word vectors: analogies (Mikolov et al. 2013) and similarity of words."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from scipy import stats

from tfnlp.text.word_vectors import WordVectors, unit

_SCORES = 1 << 24  # numbers in a block of scores


@dataclasses.dataclass(frozen=True)
class Answers:
    """Results of a section of analogies.

    Attributes:
        correct: questions answered rightly.
        seen: questions whose four words are in the vocabulary; only these are answered.
        asked: all questions.
    """

    correct: int
    seen: int
    asked: int

    @property
    def accuracy(self) -> float:
        """Share of correct answers among `seen`; nan if there are none."""
        return self.correct / self.seen if self.seen else float("nan")

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(
            self.correct + other.correct, self.seen + other.seen, self.asked + other.asked
        )


def answer_analogies(
    vectors: WordVectors,
    sections: dict[str, list[tuple[str, str, str, str]]],
    most_frequent: int | None = 30_000,
) -> dict[str, Answers]:
    """Answer a : b = c : ? with the word nearest to `b - a + c`, all unit vectors (3CosAdd).

    As in word2vec's `compute-accuracy`: only the most frequent words are candidates; case is
    folded, and of words that differ in case only the most frequent one is used; a question with a
    word that is not among them is left out; and the three words of a question are not answers.
    (In `compute-accuracy` this excludes one row for each, here, as in gensim, all that differ in
    case, which matters only for a vocabulary with capitals.)

    Args:
        vectors: the words, most frequent first.
        sections: see `tfnlp.data.read_analogies`.
        most_frequent: number of candidates; None: all.

    Returns:
        `Answers` of each section, then of "semantic", "syntactic" (sections whose names begin with
        "gram") and "total".
    """
    words = [word.upper() for word in vectors.words[:most_frequent]]
    spellings = {}  # number of a spelling
    same = np.array([spellings.setdefault(word, len(spellings)) for word in words])  # [V]
    first = np.unique(same, return_index=True)[1]  # the most frequent row of each spelling
    table = unit(vectors.vectors[: len(words)])  # [V, D]
    results = {}
    for name, questions in sections.items():
        rows = [[spellings.get(word.upper()) for word in asked] for asked in questions]
        seen = np.array([row for row in rows if None not in row], np.int64).reshape(-1, 4)
        correct = _correct(table, same, first, seen)
        results[name] = Answers(correct, len(seen), len(questions))
    none = Answers(0, 0, 0)
    syntactic = {name for name in results if name.startswith("gram")}
    semantic = sum((a for name, a in results.items() if name not in syntactic), none)
    grammar = sum((results[name] for name in syntactic), none)
    return {**results, "semantic": semantic, "syntactic": grammar, "total": semantic + grammar}


def _correct(table: np.ndarray, same: np.ndarray, first: np.ndarray, questions: np.ndarray) -> int:
    """Return how many of `questions` [Q, 4], spellings, are answered with their last one."""
    correct, step = 0, max(1, _SCORES // len(table))
    rows_of = np.argsort(same, kind="stable")  # rows by spelling
    begins = np.searchsorted(same[rows_of], np.arange(len(first) + 1))
    for start in range(0, len(questions), step):
        block = questions[start : start + step]
        a, b, c = (table[first[block[:, i]]] for i in range(3))  # [Q, D]
        scores = (b - a + c) @ table.T  # [Q, V]
        for i in range(3):
            for row, spelling in zip(scores, block[:, i], strict=True):
                row[rows_of[begins[spelling] : begins[spelling + 1]]] = -np.inf
        correct += int(np.sum(same[scores.argmax(1)] == block[:, 3]))
    return correct


@dataclasses.dataclass(frozen=True)
class Correlation:
    """Correlation of cosines with people's ratings of pairs of words.

    Attributes:
        spearman: rank correlation; nan if undefined (fewer than two pairs, or no
            differences).
        seen: pairs that it is computed over.
        asked: all pairs.
    """

    spearman: float
    seen: int
    asked: int


def rate_pairs(vectors: WordVectors, pairs: list[tuple[str, str, float]]) -> Correlation:
    """Return Spearman's rank correlation of cosines and ratings; ties share their mean rank.

    Pairs with a word that has no vector are left out, as is usual, and counted; with subwords
    almost every word has a vector. Case is folded; of words that differ in case the most frequent
    one is used.

    Args:
        vectors: the words, most frequent first.
        pairs: see `tfnlp.data.read_similarities`.
    """
    index = {}
    for row, word in enumerate(vectors.words):
        index.setdefault(word.upper(), row)
    given, cosines = [], []
    for one, other, score in pairs:
        found = [_vector(vectors, index, word) for word in (one, other)]
        if found[0] is not None and found[1] is not None:
            given.append(score)
            cosines.append(float(unit(found[0]) @ unit(found[1])))
    spearman = float("nan")
    if len(given) > 1 and len(set(given)) > 1 and len(set(cosines)) > 1:
        spearman = float(stats.spearmanr(given, cosines).statistic)
    return Correlation(spearman, len(given), len(pairs))


def _vector(vectors: WordVectors, index: Mapping[str, int], word: str) -> np.ndarray | None:
    row = index.get(word.upper())
    if row is not None:
        return vectors.vectors[row]
    if vectors.subwords is None or not len(vectors.subwords.rows([word])[0]):
        return None
    return vectors.subwords.vectors([word])[0]
