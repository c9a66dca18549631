"""Words whose vectors are computed once, before a module is exported."""

import os
import re
import shutil
import sys
import tempfile
import weakref

import tensorflow as tf
from tqdm import tqdm

from tfnlp.text.lines import read_lines

_CHUNK = 1024  # words whose vectors are computed at once
_BLANK = re.compile("[ \t\r\v\f]")  # what splits a sentence into words


class WordCache(tf.__internal__.tracking.AutoTrackable):
    """A table from words to precomputed vectors.

    The words travel as an asset of the SavedModel and the vectors as a variable, so that a large
    vocabulary is no part of the graph. The asset is a copy of the file in its plainest form: the
    user's may change, repeat a word or have line ends that TensorFlow's reader takes for another
    word.

    Args:
        path: file of words, see `read_cache_words`.
        embed: a function from strings `[N]` to vectors `[N, P]`.

    Attributes:
        vectors: variable `[V, P]`, not trainable.

    Raises:
        FileNotFoundError, ValueError: see `read_cache_words`.
    """

    def __init__(self, path, embed):
        super().__init__()
        words = [word.encode() for word in read_cache_words(path)]
        self.vectors = _vectors(words, embed)
        folder = tempfile.mkdtemp(prefix="tfnlp_words_")
        weakref.finalize(self, _remove_folder, folder, os.getpid())
        copy = os.path.join(folder, "words.txt")
        with open(copy, "wb") as file:
            file.write(b"\n".join(words) + b"\n")
        self._rows = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                copy,
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            default_value=-1,
        )

    def lookup(self, words, otherwise):
        """Vectors of strings `[N]`: the words' own, or `otherwise(words)` of those not here."""
        rows = self._rows.lookup(words)  # [N], -1 for words that are not here
        vectors = tf.gather(self.vectors, tf.maximum(rows, 0))  # [N, P]
        missing = tf.where(rows < 0)  # [M, 1]
        return tf.cond(
            tf.size(missing) > 0,
            lambda: tf.tensor_scatter_nd_update(
                vectors, missing, otherwise(tf.gather_nd(words, missing))
            ),
            lambda: vectors,
        )


def read_cache_words(path):
    """The distinct words of a file, in its order.

    UTF-8, with or without a byte order mark, one word a line; both line endings are accepted, empty
    lines and repeated words are left out. A vocabulary of a run or of bilm-tf is such a file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is binary or not UTF-8, has no words, or a line of several.
    """
    words, source = {}, f"cache {path}"
    for number, word in enumerate(read_lines(path, "cache"), start=1):
        if _BLANK.search(word):
            raise ValueError(f"{source} has {word[:50]!r} in line {number}; expected one word")
        words[word] = None
    words.pop("", None)
    if not words:
        raise ValueError(f"{source} holds no words; give a file of words, one a line")
    return list(words)


def _vectors(words, embed):
    """A variable `[V, P]`. Words of like length are embedded together, so that few are padded."""
    order = sorted(range(len(words)), key=lambda i: len(words[i]))
    terminal = sys.stderr.isatty()
    bar = tqdm(
        desc="word vectors",
        total=len(words),
        unit="word",
        disable=len(words) <= _CHUNK,
        dynamic_ncols=terminal,
        mininterval=0.5 if terminal else 10.0,
        file=sys.stderr,
    )
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


def _remove_folder(folder, owner):
    if os.getpid() == owner:  # a forked child must not delete its parent's file
        shutil.rmtree(folder, ignore_errors=True)
