"""Words with one vector each, as word2vec, fastText, GloVe and an NNLM give them."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from tfnlp.text.lines import shown
from tfnlp.text.subwords import Subwords


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
        self,
        positive: str | Sequence[str] = (),
        negative: str | Sequence[str] = (),
        topn: int = 10,
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
