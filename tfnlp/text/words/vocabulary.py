"""Vocabularies of whole words, for language models with one output a word.

The file format is bilm-tf's: UTF-8, one word a line, the line number is the id. The special words
`<S>`, `</S>` and `<UNK>` are among them, and frequent words come first, as a sampled softmax with a
log-uniform sampler requires.
"""

import collections
import os
import re
from collections.abc import Iterable, Sequence

from tfnlp.text.characters import BEGIN_OF_SENTENCE, END_OF_SENTENCE, UNKNOWN
from tfnlp.text.counted_words import checked_texts
from tfnlp.text.lines import checked_entries, read_lines, write_text

SPECIAL_WORDS = (BEGIN_OF_SENTENCE, END_OF_SENTENCE, UNKNOWN)

# In this order: a verb before its n't, the n't, the endings after an apostrophe, words with hyphens
# or with dots or commas between digits, single marks.
_WORD = re.compile(
    r"\w+?(?=n['’]t\b)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)+|\w+(?:-\w+)*|[^\w\s]",
    re.IGNORECASE,
)

_NOT_A_WORD = "!!!MAXTERMID"  # last line of the published file; bilm-tf skips it, too


def split_words(text: str) -> str:
    """Return `text` with spaces between words and punctuation, so that `str.split` gives words.

    English roughly as in the Penn Treebank: "didn't" -> "did n't", "Mary's" -> "Mary 's",
    hyphenated words stay whole. For text that is not tokenized yet: without it "hard." is another
    word than "hard".
    """
    return " ".join(_WORD.findall(text))


def train_words(
    sentences: Iterable[str], max_size: int | None = None, min_count: int = 1
) -> list[str]:
    """Return the words of `sentences` by falling frequency, equally frequent ones by code point.

    Args:
        sentences: strings of words with whitespace between, read once.
        max_size: the largest number of words to return, the three special ones included.
        min_count: words seen fewer times are left out.

    Returns:
        `<S>`, `</S>`, `<UNK>`, then the words.

    Raises:
        ValueError: `sentences` is a single string, holds something else than strings or no words,
            max_size < 4, or no word is left.
    """
    if max_size is not None and max_size <= len(SPECIAL_WORDS):
        raise ValueError(
            f"max_size must be {len(SPECIAL_WORDS) + 1} or more, since it includes "
            f"{', '.join(SPECIAL_WORDS)}; got {max_size}"
        )
    words = by_frequency(sentences, min_count, SPECIAL_WORDS)
    return [*SPECIAL_WORDS, *words][:max_size]


def by_frequency(
    sentences: Iterable[str], min_count: int, without: Sequence[str] = ()
) -> list[str]:
    """Return the words that occur `min_count` times by falling frequency, ties by code point."""
    counts = collections.Counter()
    for sentence in checked_texts(sentences, "sentences"):
        counts.update(sentence.split())
    for word in without:
        counts.pop(word, None)
    if not counts:
        raise ValueError("sentences hold no words to make a vocabulary of; give more text")
    words = [word for word, count in counts.items() if count >= min_count]
    if not words:
        raise ValueError(
            f"no word occurs min_count={min_count} times, the most frequent one "
            f"{max(counts.values())} times; lower min_count"
        )
    return sorted(words, key=lambda word: (-counts[word], word))


def check_words(words: Sequence[str], source: str) -> list[str]:
    """Return `words` as a list."""
    return checked_entries(words, source, "word", SPECIAL_WORDS)


def read_words(path: str | os.PathLike) -> list[str]:
    """Read a vocabulary of words: UTF-8, one word per line, the line number is the id.

    Both line endings are accepted, and so is a missing last one. A last line `!!!MAXTERMID`, which
    the published vocabulary has, is not a word.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is empty, binary or not UTF-8, has blank lines or duplicates, or lacks
            one of `SPECIAL_WORDS`.
    """
    lines = read_lines(path, "vocabulary file")
    if lines[-1:] == [_NOT_A_WORD]:
        del lines[-1]
    return check_words(lines, f"vocabulary file {path}")


def write_words(path: str | os.PathLike, words: Sequence[str]) -> None:
    """Write a vocabulary of words, whole or not at all (see `tfnlp.files.written_whole`).

    Raises:
        ValueError: `words` is not a usable vocabulary (see `read_words`).
    """
    path = os.fspath(path)
    words = check_words(words, f"the vocabulary to be written to {path}")
    write_text(path, "\n".join(words) + "\n")
