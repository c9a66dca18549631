"""Text of models with one vector for each frequent word: words, counts and numbered sentences."""

import os
import sys
from typing import Any

from tfnlp.families.preparation import (
    Documents,
    changed,
    documents,
    read_or_learnt,
    sentences,
    tokenized,
    tokenized_once,
    write_lines,
)
from tfnlp.settings.text import CountedTextSettings

COUNTS = "counts.txt"  # beside the vocabulary: how often each word is in the training text


def read_corpora(config: CountedTextSettings) -> tuple[list[str], Any, Any]:
    """Return the words of a run, and its training and held-out text as `WordCorpus`."""
    train, valid = (_prepared(part, config) for part in documents(config))
    words = _vocabulary(config, train)
    return words, _corpus(train, words), _corpus(valid, words)


def _corpus(documents: Documents, words: list[str]) -> Any:
    from tfnlp.data import WordCorpus

    return tokenized_once(
        documents,
        ["words", words],
        lambda folder: WordCorpus.build(sentences(documents), words, folder),
        lambda folder: WordCorpus.read(folder, words),
    )


def _prepared(documents: Documents, config: CountedTextSettings) -> Documents:
    documents = tokenized(documents, config.tokenize)
    return changed(documents, str.lower) if config.lowercase else documents


def _vocabulary(config: CountedTextSettings, documents: Documents) -> list[str]:
    from tfnlp.data import frequent_words

    def learn() -> list[str]:
        print("counting words", file=sys.stderr)
        return frequent_words(sentences(documents), config.min_count, config.max_vocab)

    decides = ["frequent words", config.min_count, config.max_vocab]
    return read_or_learnt(config, documents, decides, learn, read_words, write_lines)


def read_words(path: str) -> list[str]:
    """Return the words of a run, or of any file with one word a line."""
    from tfnlp.text.lines import read_lines, shown

    words = read_lines(path, "vocabulary file")
    for number, word in enumerate(words, 1):
        if word.split() != [word]:
            raise ValueError(
                f"vocabulary file {path} has {shown(word)} in line {number}; expected one word"
            )
    if not words:
        raise ValueError(f"vocabulary file {path} is empty; expected one word a line")
    return words


def read_counts(folder: str) -> Any:
    """Return the counts of a run's words, int64 `[V]`, or None if it has no such file."""
    import numpy as np

    from tfnlp.text.lines import read_lines

    path = os.path.join(folder, COUNTS)
    if not os.path.exists(path):
        return None
    lines = read_lines(path, "file of counts")
    if not all(line.isdecimal() and len(line) < 19 for line in lines):
        raise ValueError(f"file of counts {path} holds something else; expected whole numbers")
    return np.array(lines, "int64")
