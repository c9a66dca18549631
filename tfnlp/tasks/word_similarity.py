"""What word vectors know: analogies (Mikolov et al. 2013) and similarity as people see it."""

import dataclasses

import numpy as np

from tfnlp.text.words.vectors import WordVectors, unit

_SCORES = 1 << 24  # numbers in a block of scores


@dataclasses.dataclass(frozen=True)
class Answers:
    """How a section of analogies went.

    Attributes:
        correct: questions answered rightly.
        seen: questions whose four words are in the vocabulary; the others are not asked.
        asked: all questions.
    """

    correct: int
    seen: int
    asked: int

    @property
    def accuracy(self) -> float:
        """Of the questions that were seen; nan if there are none."""
        return self.correct / self.seen if self.seen else float("nan")

    @property
    def coverage(self) -> float:
        """Share of the questions that could be answered."""
        return self.seen / self.asked if self.asked else float("nan")

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(
            self.correct + other.correct, self.seen + other.seen, self.asked + other.asked
        )


def answer_analogies(
    vectors: WordVectors,
    sections: dict[str, list[tuple[str, str, str, str]]],
    most_frequent: int | None = 30_000,
    fold: bool = True,
) -> dict[str, Answers]:
    """Answers a : b = c : ? with the word nearest to `b - a + c`, all unit vectors (3CosAdd).

    As word2vec's `compute-accuracy` does: only the most frequent words are looked at, case is
    folded and stands for the most frequent word of that spelling, a question with a word that is
    not among them is left out, and none of the three words asked for is an answer. (There it is
    one row that is none; here it is every spelling of it, as in gensim, which matters to a
    vocabulary with capitals only.)

    Args:
        vectors: the words, most frequent first.
        sections: see `tfnlp.data.read_analogies`.
        most_frequent: words looked at; None: all.
        fold: whether case is folded.

    Returns:
        `Answers` of each section, then of "semantic", "syntactic" (sections whose names begin with
        "gram") and "total".

    Raises:
        ValueError: most_frequent below 1.
    """
    if most_frequent is not None and most_frequent < 1:
        raise ValueError(f"most_frequent={most_frequent} must be None, 1 or more")
    words = [_folded(word, fold) for word in vectors.words[:most_frequent]]
    spellings = {}  # number of a spelling
    same = np.array([spellings.setdefault(word, len(spellings)) for word in words])  # [V]
    first = np.unique(same, return_index=True)[1]  # the most frequent row of each spelling
    table = unit(vectors.vectors[: len(words)])  # [V, D]
    results = {}
    for name, questions in sections.items():
        rows = [[spellings.get(_folded(word, fold)) for word in asked] for asked in questions]
        seen = np.array([row for row in rows if None not in row], np.int64).reshape(-1, 4)
        correct = _correct(table, same, first, seen)
        results[name] = Answers(correct, len(seen), len(questions))
    none = Answers(0, 0, 0)
    syntactic = {name for name in results if name.startswith("gram")}
    semantic = sum((a for name, a in results.items() if name not in syntactic), none)
    grammar = sum((results[name] for name in syntactic), none)
    return {**results, "semantic": semantic, "syntactic": grammar, "total": semantic + grammar}


def _correct(table, same, first, questions):
    """How many of `questions` [Q, 4], spellings, are answered with their last one."""
    correct, step = 0, max(1, _SCORES // len(table))
    rows_of = np.argsort(same, kind="stable")  # rows by spelling
    begins = np.searchsorted(same[rows_of], np.arange(len(first) + 1))
    single = len(first) == len(table)
    for start in range(0, len(questions), step):
        block = questions[start : start + step]
        a, b, c = (table[first[block[:, i]]] for i in range(3))  # [Q, D]
        scores = (b - a + c) @ table.T  # [Q, V]
        for i in range(3):
            if single:
                scores[np.arange(len(block)), first[block[:, i]]] = -np.inf
                continue
            for row, spelling in zip(scores, block[:, i], strict=True):
                row[rows_of[begins[spelling] : begins[spelling + 1]]] = -np.inf
        correct += int(np.sum(same[scores.argmax(1)] == block[:, 3]))
    return correct


@dataclasses.dataclass(frozen=True)
class Correlation:
    """How well cosines follow the numbers that people gave to pairs of words.

    Attributes:
        spearman: rank correlation; nan if it can't be said (fewer than two pairs, or no
            differences).
        seen: pairs that it is taken over.
        asked: all pairs.
    """

    spearman: float
    seen: int
    asked: int

    @property
    def coverage(self) -> float:
        return self.seen / self.asked


def rate_pairs(
    vectors: WordVectors, pairs: list[tuple[str, str, float]], fold: bool = True
) -> Correlation:
    """Spearman's rank correlation of cosines with people's numbers; ties share their mean rank.

    Pairs with a word that has no vector are left out, as is usual, and counted; with subwords
    almost every word has one.

    Args:
        vectors: the words, most frequent first.
        pairs: see `tfnlp.data.read_similarities`.
        fold: whether case is folded; a spelling stands for its most frequent word.
    """
    import scipy.stats  # takes long, and whoever imports `tfnlp.tasks` would wait for it

    index = {}
    for row, word in enumerate(vectors.words):
        index.setdefault(_folded(word, fold), row)
    given, cosines = [], []
    for one, other, score in pairs:
        found = [_vector(vectors, index, word, fold) for word in (one, other)]
        if found[0] is not None and found[1] is not None:
            given.append(score)
            cosines.append(float(unit(found[0]) @ unit(found[1])))
    spearman = float("nan")
    if len(given) > 1 and len(set(given)) > 1 and len(set(cosines)) > 1:
        spearman = float(scipy.stats.spearmanr(given, cosines).statistic)
    return Correlation(spearman, len(given), len(pairs))


def _vector(vectors, index, word, fold):
    row = index.get(_folded(word, fold))
    if row is not None:
        return vectors.vectors[row]
    if vectors.subwords is None or not len(vectors.subwords.rows([word])[0]):
        return None
    return vectors.subwords.vectors([word])[0]


def _folded(word, fold):
    return word.upper() if fold else word
