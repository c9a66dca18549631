"""Table of words whose vectors are computed once, before a module is exported."""

import os
import re
from collections.abc import Callable

import tensorflow as tf

from tfnlp.bars import ProgressBar
from tfnlp.text.assets import line_number_table, lines_asset
from tfnlp.text.lines import read_lines

_CHUNK = 1024  # words per batch
_BLANK = re.compile("[ \t\r\v\f]")  # separates the words of a sentence


class WordCache(tf.__internal__.tracking.AutoTrackable):
    """Table from words to precomputed vectors.

    The words travel as an asset of the SavedModel and the vectors as a variable, so that a large
    vocabulary is not part of the graph. The asset is a normalized copy of the file: the user's
    file may change, repeat a word, or have line ends that TensorFlow would read as part of a word.

    Args:
        path: file of words, see `read_cache_words`.
        embed: function from strings `[N]` to vectors `[N, P]`.
    """

    def __init__(self, path: str | os.PathLike, embed: Callable[[tf.Tensor], tf.Tensor]) -> None:
        super().__init__()
        words = read_cache_words(path)
        self.vectors = _vectors([word.encode() for word in words], embed)
        self.asset = lines_asset("words.txt", words)
        self._rows = line_number_table(self.asset)

    def lookup(self, words: tf.Tensor, otherwise: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
        """Return the vectors `[N, P]` of strings `[N]`; `otherwise` computes missing ones."""
        rows = self._rows.lookup(words)  # [N], -1 for missing words
        vectors = tf.gather(self.vectors, tf.maximum(rows, 0))  # [N, P]
        missing = tf.where(rows < 0)  # [M, 1]
        return tf.cond(
            tf.size(missing) > 0,
            lambda: tf.tensor_scatter_nd_update(
                vectors, missing, otherwise(tf.gather_nd(words, missing))
            ),
            lambda: vectors,
        )


def read_cache_words(path: str | os.PathLike) -> list[str]:
    """Return the distinct words of a file, in its order.

    The file is UTF-8, with or without a byte order mark, with one word per line. Both line endings
    are accepted; empty lines and repeated words are left out. A vocabulary of a run or of bilm-tf
    is such a file.
    """
    words, source = {}, f"cache {path}"
    for number, word in enumerate(read_lines(path, "cache"), start=1):
        if _BLANK.search(word):
            raise ValueError(f"{source} has {word[:50]!r} in line {number}; expected one word")
        words[word] = None
    words.pop("", None)
    if not words:
        raise ValueError(f"{source} holds no words; give a file with one word per line")
    return list(words)


def _vectors(words: list[bytes], embed: Callable[[tf.Tensor], tf.Tensor]) -> tf.Variable:
    """Return a variable `[V, P]`. Words of similar length share a batch, for less padding."""
    order = sorted(range(len(words)), key=lambda i: len(words[i]))
    small = len(words) <= _CHUNK
    bar = ProgressBar(desc="word vectors", total=len(words), unit="words", disable=small)
    variable = None
    with bar:
        for start in range(0, len(words), _CHUNK):
            rows = order[start : start + _CHUNK]
            values = embed(tf.constant([words[i] for i in rows]))
            if variable is None:
                shape = (len(words), values.shape[-1])
                variable = tf.Variable(tf.zeros(shape, values.dtype), trainable=False, name="cache")
            variable.scatter_update(tf.IndexedSlices(values, tf.constant(rows)))
            bar.update(len(rows))
    return variable
