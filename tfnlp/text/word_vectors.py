"""Words with one vector each, as word2vec, fastText, GloVe and an NNLM give them, and their tests.

analogies (`questions-words.txt` of word2vec)    `: name` begins a section; a line of four words
                                                 is the question a : b = c : d (Mikolov et al. 2013)
similarity (WordSim-353, MEN, RG-65, ...)        a line of two words and a number
"""

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy import stats

from tfnlp.text.lines import read_lines, shown
from tfnlp.text.subwords import Subwords

_SCORES = 1 << 24  # numbers in a block of scores


@dataclasses.dataclass(frozen=True, eq=False)
class WordVectors:
    """A vocabulary and its vectors, with the names of gensim's `KeyedVectors`.

        vectors["king"], "king" in vectors, len(vectors), vectors.similarity("king", "queen")
        vectors.most_similar(["king", "woman"], ["man"], topn=3)

    With subwords, `vectors` are already the means over a word's own vector and its n-grams'.
    `subwords` are for words that are not in the list.

    Attributes:
        words: distinct words, the most frequent first.
        vectors: float32 [V, D].
        counts: how often each word was seen, int64 [V], or None if that is not known.
        subwords: `Subwords` with vectors of D numbers, or None.
        index: dict of word to row.

    Raises:
        ValueError: empty or repeated words.
    """

    words: list[str]
    vectors: np.ndarray
    counts: np.ndarray | None = None
    subwords: Subwords | None = None
    index: dict[str, int] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        index = {}
        for row, word in enumerate(self.words):
            if not word:
                raise ValueError(f"word {row} is empty; expected a word for every vector")
            if index.setdefault(word, row) != row:
                raise ValueError(
                    f"words has {shown(word)} twice, as {index[word]} and {row}; remove one"
                )
        object.__setattr__(self, "index", index)

    @property
    def size(self) -> int:
        """D, the numbers in a vector."""
        return self.vectors.shape[1]

    def __contains__(self, word: str) -> bool:
        return word in self.index

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __getitem__(self, words: str | Sequence[str]) -> np.ndarray:
        """Return the vector of a word `[D]`, or those of several `[N, D]`; else KeyError."""
        try:
            if isinstance(words, str):
                return self.vector(words)
            return np.array([self.vector(word) for word in words])
        except ValueError as error:
            raise KeyError(str(error)) from error

    def vector(self, word: str) -> np.ndarray:
        """Return the vector of a word, float32 [D]: from its n-grams if it is not in the list.

        Raises:
            ValueError: the word is not in the list, and there are no subwords or none of its own.
        """
        if word in self.index:
            return self.vectors[self.index[word]]
        if self.subwords is None:
            raise ValueError(f"{shown(word)} is not among the {len(self.words)} words")
        if not len(self.subwords.rows([word])[0]):
            raise ValueError(f"{shown(word)} is not among the words, and too short for subwords")
        return self.subwords.vectors([word])[0]

    def similarity(self, first: str, second: str) -> float:
        """Return the cosine of two words; errors are those of `vector`."""
        return float(unit(self.vector(first)) @ unit(self.vector(second)))

    def most_similar(
        self, positive: str | Sequence[str] = (), negative: str | Sequence[str] = (), topn: int = 10
    ) -> list[tuple[str, float]]:
        """Return the words of greatest cosine with `sum(positive) - sum(negative)`, unit vectors.

        One word, a string, or in a list: its neighbours; `["king", "woman"], ["man"]`: an analogy
        (3CosAdd). The given words are left out.

        Returns:
            `(word, cosine)`, best first.

        Raises:
            ValueError: no word at all, topn < 1, or see `vector`.
        """
        positive, negative = ([w] if isinstance(w, str) else w for w in (positive, negative))
        if not (positive or negative):
            raise ValueError("positive and negative are empty; give at least one word")
        if topn < 1:
            raise ValueError(f"topn={topn} must be at least 1")
        signed = [(w, 1.0) for w in positive] + [(w, -1.0) for w in negative]
        query = sum(sign * unit(self.vector(word)) for word, sign in signed)  # [D]
        scores = unit(self.vectors) @ unit(query)  # [V]
        scores[[self.index[w] for w, _ in signed if w in self.index]] = -np.inf
        count = min(topn, len(self))
        best = np.argpartition(-scores, count - 1)[:count]
        best = best[np.lexsort((best, -scores[best]))]
        return [(self.words[i], float(scores[i])) for i in best if scores[i] > -np.inf]


def unit(x: np.ndarray) -> np.ndarray:
    """Return vectors `[..., D]` divided by their lengths; zeros stay zeros."""
    lengths = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(lengths > 0, lengths, 1).astype(x.dtype)


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
        sections: see `read_analogies`.
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
        pairs: see `read_similarities`.
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


def read_analogies(path: str | os.PathLike) -> dict[str, list[tuple[str, str, str, str]]]:
    """Read the questions (a, b, c, d) of each section, in the file's order.

    The section of questions before the first `: name` is "questions".

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line that is not of this format.
    """
    sections, questions = {}, None
    for number, line in enumerate(read_lines(path, "file of analogies"), start=1):
        fields = line.split()
        if not fields:
            continue
        if fields[0].startswith(":"):
            name = line.strip()[1:].strip()
            if not name or name in sections:
                raise ValueError(
                    f"file of analogies {path}, line {number} has {shown(line)}; expected `: NAME` "
                    "with a name of its own for each section"
                )
            questions = sections[name] = []
        elif len(fields) == 4:
            if questions is None:
                questions = sections["questions"] = []
            questions.append(tuple(fields))
        else:
            raise ValueError(
                f"file of analogies {path}, line {number} has {len(fields)} words; expected four, "
                "or `: NAME` of a section"
            )
    if not any(sections.values()):
        raise ValueError(f"file of analogies {path} holds no questions; expected four words a line")
    return sections


def read_similarities(path: str | os.PathLike) -> list[tuple[str, str, float]]:
    """Read pairs of words and their similarity as rated by people, higher for more similar ones.

    Fields are split at tabs; without tabs at whitespace or, failing that, at commas. Lines that
    begin with `#` are comments; a first line whose third field is not a number is a heading.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line that is not of this format; fewer than 2 pairs.
    """
    pairs = []
    for number, line in enumerate(read_lines(path, "file of pairs"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t") if "\t" in line else line.split()
        if len(fields) < 3:
            fields = line.split(",")
        fields = [field.strip() for field in fields]
        score = _number(fields[2]) if len(fields) >= 3 else math.nan
        if math.isnan(score) or not (fields[0] and fields[1]):
            if number == 1 and len(fields) >= 3:
                continue
            raise ValueError(
                f"file of pairs {path}, line {number} has {shown(line)}; expected two words and a "
                "number"
            )
        pairs.append((fields[0], fields[1], score))
    if len(pairs) < 2:
        raise ValueError(f"file of pairs {path} holds {len(pairs)} pairs; expected 2 or more")
    return pairs


def _number(field: str) -> float:
    try:
        return float(field)
    except ValueError:
        return math.nan
