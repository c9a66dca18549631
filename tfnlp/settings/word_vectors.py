"""Settings that models with one vector for each word share."""

import dataclasses
from typing import Any, ClassVar

from tfnlp.settings.options import option
from tfnlp.settings.text import WordTextSettings
from tfnlp.settings.use import EvaluationSettings, PredictionSettings


@dataclasses.dataclass(kw_only=True)
class CountedTextSettings(WordTextSettings):
    """The text of models of frequent words, which leave all others out."""

    lowercase: bool = option(False, "lower-case the text", group="text", record="text")


@dataclasses.dataclass(kw_only=True)
class VectorEvaluation(EvaluationSettings):
    """What word vectors know of analogies and of people's judgements."""

    of: ClassVar[str] = "word vectors"
    one_of: ClassVar[tuple[str, ...]] = ("analogies", "similarity")
    analogies: str | None = option(None, "questions such as questions-words.txt", metavar="FILE")
    similarity: Any = option(None, "pairs that people rated", metavar="FILE")
    most_frequent: int = option(30_000, "of the analogies: words looked at", at_least=1)

    def check(self) -> None:
        """Check the fields, and that there is something to measure on."""
        super().check()
        if all(getattr(self, name) is None for name in self.one_of):
            asked = " or ".join(f"`{name}`" for name in self.one_of)
            raise ValueError(f"there is nothing to measure on; give {asked}")


@dataclasses.dataclass(kw_only=True)
class WordPrediction(PredictionSettings):
    """Arguments of `tfnlp predict` of word vectors, which finds the nearest words."""

    of: ClassVar[str] = "word vectors"
    reads_stdin: ClassVar[bool] = False
    text: list[str] = option(
        help="words, or one sum of words with spaces around + and -; with subwords any word goes",
        positional=True, metavar="word",
    )  # fmt: skip
    top: int = option(10, "words to print", at_least=1)

    def queries(self) -> list[str]:
        """Return the words, or the one sum of words."""
        text = " ".join(self.text)
        return [text] if {"+", "-"} & set(text.split()) else text.split()

    def check_texts(self) -> None:
        """Check the form of sums."""
        for query in self.queries():
            signed_words(query)


def signed_words(query: str) -> tuple[list[str], list[str]]:
    """Return the words of "king - man + woman", as `(positive, negative)`."""
    positive, negative, sign, words = [], [], "+", query.split()
    for place, word in enumerate(words):
        if place % 2:
            if word not in ("+", "-"):
                raise ValueError(f"{query!r} lacks a + or - before {word!r}")
            sign = word
        elif word in ("+", "-"):
            raise ValueError(f"{query!r} lacks a word beside {word!r}; put spaces around signs")
        else:
            (positive if sign == "+" else negative).append(word)
    if len(words) % 2 == 0:
        raise ValueError(f"{query!r} lacks a word at its end")
    return positive, negative
