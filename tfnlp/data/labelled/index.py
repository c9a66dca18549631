"""Labelled sentences: files with a label for every sentence; words and labels to ids."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tfnlp.data.labelled.task_rows import file_lines

PADDING, UNKNOWN = 0, 1  # ids that no word of a word index has


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
    for number, line in enumerate(file_lines(path), 1):
        label, *words = [part for part in line.split(" ") if part] or [""]
        if label and not words:
            raise ValueError(
                f"{path}, line {number}: expected a label and words between spaces; got {line!r}"
            )
        if label:
            sentences.append((words, label))
    if not sentences:
        raise ValueError(f"no sentences in {path}; is it a file of this format?")
    return sentences


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
