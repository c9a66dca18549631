"""Input of vocabulary training: texts are counted as words, and words are given to the trainer."""

import collections
from collections.abc import Iterable, Iterator

_LINE = 1000  # words of a line


def checked_texts(texts: Iterable[str], name: str = "texts") -> Iterator[str]:
    """Yield texts, each of which must be a string."""
    if isinstance(texts, str | bytes):
        raise ValueError(f"{name} is a single string; pass a list of strings")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"{name}[{number}] must be a string; got {text!r:.60}")
        yield text


def check_counts(counts: collections.Counter) -> None:
    """Raise ValueError if no words were counted."""
    if not counts:
        raise ValueError("texts holds no words to train a vocabulary on; pass some text")


def frequent_characters(counts: collections.Counter, limit: int) -> list[str]:
    """Return the `limit` most frequent characters of words, in code point order."""
    chars = collections.Counter()
    for word, count in counts.items():
        for char in word:
            chars[char] += count
    return sorted(sorted(chars, key=lambda char: (-chars[char], char))[:limit])


def most_tokens(counts: collections.Counter, first: int) -> int:
    """Return a size that no vocabulary of these words exceeds.

    The trainer reserves memory for the size that it is given, so it gets no larger one than this.

    Args:
        counts: of words.
        first: number of tokens that are there before the first merge.
    """
    return first + sum(map(len, counts))  # every merge shortens a word by one symbol or more


def repeat_words(counts: collections.Counter) -> Iterator[str]:
    """Yield lines that hold each word as often as it was counted: the trainer takes text only."""
    line = []
    for word, count in counts.items():
        while count:
            take = min(count, _LINE - len(line))
            line.extend([word] * take)
            count -= take
            if len(line) == _LINE:
                yield " ".join(line)
                line.clear()
    if line:
        yield " ".join(line)
