"""Labelled sentences: files with a tag for every word or a label for every sentence, to ids."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from tfnlp.data.corpus import _read_lines

PADDING, UNKNOWN = 0, 1  # ids that no word of a word index has

_COLUMNS = {"upos": 3, "xpos": 4}  # of the ten of CoNLL-U


def read_conllu(path: str, column: str = "upos") -> list[tuple[list[str], list[str]]]:
    """The sentences of a CoNLL-U file, as pairs of words and tags.

    Ranges of a word's parts (`1-2`) and words that were left out (`1.1`) are passed over, as
    universaldependencies.org/format.html has it: what is tagged are the syntactic words.

    Args:
      path: a UTF-8 file; `.gz` is unpacked on the way.
      column: "upos" (the universal tags) or "xpos" (those of the language).

    Raises:
      ValueError: an unknown column, a line without ten columns, a word without a tag, a file
        without sentences or that is not UTF-8.
      FileNotFoundError: there is no such file.
      OSError: a damaged or truncated gzip file.
    """
    if column not in _COLUMNS:
        raise ValueError(f"column must be one of {', '.join(_COLUMNS)}; got {column!r}")
    sentences, words, tags = [], [], []
    for number, line in enumerate(_lines(path), 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if words:
                sentences.append((words, tags))
            words, tags = [], []
            continue
        fields = line.split("\t")
        if len(fields) != 10:
            raise ValueError(
                f"{path}, line {number}: expected the ten columns of CoNLL-U between tabs; got "
                f"{len(fields)}: {line[:60]!r}"
            )
        if not fields[0].isdecimal():
            continue
        tag = fields[_COLUMNS[column]]
        if tag == "_":
            raise ValueError(
                f"{path}, line {number}: the word {fields[1]!r} has no {column}; choose the other "
                "column or an annotated file"
            )
        words.append(fields[1])
        tags.append(tag)
    if words:
        sentences.append((words, tags))
    return _not_empty(sentences, path)


def read_labelled_text(path: str) -> list[tuple[list[str], str]]:
    """The sentences of a file with a line `label word word ...` each, as pairs of words and label.

    Words lie between spaces, so other blanks (a no-break space, say) stay within a word. Empty
    lines are passed over.

    Args:
      path: a UTF-8 file; `.gz` is unpacked on the way.

    Raises:
      ValueError: a line with a label and no words, a file without sentences or not UTF-8.
      FileNotFoundError: there is no such file.
      OSError: a damaged or truncated gzip file.
    """
    sentences = []
    for number, line in enumerate(_lines(path), 1):
        label, *words = [part for part in line.split(" ") if part] or [""]
        if label and not words:
            raise ValueError(
                f"{path}, line {number}: expected a label and words between spaces; got {line!r}"
            )
        if label:
            sentences.append((words, label))
    return _not_empty(sentences, path)


def index_words(
    sentences: Iterable[Sequence[str]], min_count: int = 1, lowercase: bool = False
) -> dict[str, int]:
    """Ids of words: frequent ones first, equals in alphabetical order, from 2 (0 is padding).

    Args:
      sentences: the training sentences; rarer words than `min_count` get no id.
      min_count: 1 or more.
      lowercase: take `str.lower` of the words; give `word_ids` the same value.

    Raises:
      ValueError: a `min_count` below 1.
    """
    if min_count < 1:
        raise ValueError(f"min_count must be 1 or more; got {min_count}")
    counts = Counter(
        word.lower() if lowercase else word for sentence in sentences for word in sentence
    )
    words = sorted((w for w in counts if counts[w] >= min_count), key=lambda w: (-counts[w], w))
    return {word: index for index, word in enumerate(words, 2)}


def word_ids(words: Sequence[str], index: dict[str, int], lowercase: bool = False) -> list[int]:
    """The ids of a sentence under an `index_words`; 1 for words that it doesn't have."""
    return [index.get(word.lower() if lowercase else word, UNKNOWN) for word in words]


def index_labels(labels: Iterable[str]) -> dict[str, int]:
    """Ids of labels, from 0, in alphabetical order."""
    return {label: index for index, label in enumerate(sorted(set(labels)))}


def _lines(path):
    path = os.path.expanduser(os.fspath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; expected a file")
    if not os.path.exists(path):
        raise FileNotFoundError(f"no such file: {path}")
    return _read_lines(path)


def _not_empty(sentences, path):
    if not sentences:
        raise ValueError(f"no sentences in {path}; is it a file of this format?")
    return sentences
