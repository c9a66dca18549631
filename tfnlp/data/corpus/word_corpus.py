"""Corpus of the words of a vocabulary, for word2vec."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np

from tfnlp.data.corpus.arrays import GrowingWords, count_ids, read_arrays
from tfnlp.text.counted_words import checked_texts
from tfnlp.text.words import by_frequency


@dataclasses.dataclass(frozen=True, eq=False)
class WordCorpus:
    """Sentences as indices of words, 4 bytes a word.

    Words that are not in the vocabulary are removed: as in word2vec.c, the words before and after
    them become neighbours. Sentence s is `ids[sentence_starts[s] : sentence_starts[s + 1]]`;
    none is empty.

    Attributes:
        words: the vocabulary, V distinct words.
        ids: int32 [W], indices into `words`.
        sentence_starts: int64 [S + 1], positions in `ids`, from 0 to W.
        counts: int64 [V], the frequency of each word in `ids`.
        unknown: number of words of the text that were removed.
    """

    words: list[str]
    ids: np.ndarray
    sentence_starts: np.ndarray
    unknown: int = 0

    @functools.cached_property
    def counts(self) -> np.ndarray:
        return count_ids(self.ids, len(self.words))

    @property
    def num_words(self) -> int:
        return len(self.ids)

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_starts) - 1

    @classmethod
    def build(
        cls, sentences: Iterable[str], words: Sequence[str], folder: str | None = None
    ) -> "WordCorpus":
        """Split sentences at whitespace and number their words.

        Args:
            sentences: strings, read once.
            words: the vocabulary, each of them once, see `frequent_words`.
            folder: write the arrays to files there, and map these; None: keep them in memory.

        Raises:
            ValueError: a sentence that is no string, or sentences without a word of the vocabulary.
        """
        words = list(words)
        numbers = {word: number for number, word in enumerate(words)}
        grown, unknown = GrowingWords(folder), 0
        for sentence in checked_texts(sentences, "sentences"):
            split = sentence.split()
            known = grown.append([numbers[word] for word in split if word in numbers])
            unknown += len(split) - known
        if not grown.words:
            raise ValueError(
                f"the text holds none of the {len(words)} words of the vocabulary; give more text "
                "or another vocabulary"
            )
        arrays = grown.finish(unknown=unknown)
        return cls(words, arrays["ids"], arrays["sentence_starts"], unknown)

    @classmethod
    def read(cls, folder: str, words: Sequence[str]) -> "WordCorpus":
        """Return the corpus of these words that `build` wrote to a folder.

        Raises:
            OSError: a file is missing or damaged.
        """
        arrays = read_arrays(folder)
        return cls(list(words), arrays["ids"], arrays["sentence_starts"], arrays["unknown"])


def frequent_words(
    sentences: Iterable[str], min_count: int = 5, max_size: int | None = None
) -> list[str]:
    """Return the words of `sentences` by falling frequency, ties in the order of code points.

    Args:
        sentences: strings of words with whitespace between, read once.
        min_count: rarer words are left out.
        max_size: largest number of words; None: no limit.

    Raises:
        ValueError: no words, or only rarer ones.
    """
    return by_frequency(sentences, min_count)[:max_size]
