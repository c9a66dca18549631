"""Words to numbers by a fixed list, inside the TensorFlow graph."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence

import tensorflow as tf

UNKNOWN_WORD, FIRST_WORD = 1, 2


class WordIndex(tf.__internal__.tracking.AutoTrackable):
    """Words to ids: 0 for the empty word, 1 for one that is not in the list, then the list's.

    The list travels as an asset of a SavedModel.

    Args:
      words: distinct, without line breaks, in lower case: words are lower-cased to be looked up.
    """

    def __init__(self, words: Sequence[str]):
        super().__init__()
        self.size = FIRST_WORD + len(words)
        folder = tempfile.mkdtemp(prefix="tfnlp_words_")
        path = os.path.join(folder, "words.txt")
        with open(path, "w", encoding="utf-8", newline="") as file:
            # A table can't be made from an empty file. Nothing in lower case is the first line.
            file.write("".join(f"{word}\n" for word in ["UNKNOWN", *words]))
        self.asset = tf.saved_model.Asset(path)
        weakref.finalize(self, _remove_folder, folder, os.getpid())
        with tf.init_scope(), tf.device("CPU:0"):
            self._table = tf.lookup.StaticHashTable(
                tf.lookup.TextFileInitializer(
                    self.asset.asset_path,
                    tf.string,
                    tf.lookup.TextFileIndex.WHOLE_LINE,
                    tf.int64,
                    tf.lookup.TextFileIndex.LINE_NUMBER,
                ),
                default_value=0,
            )

    def ids(self, words: tf.Tensor) -> tf.Tensor:
        """Strings of any shape to int32 of that shape."""
        found = self._table.lookup(tf.strings.lower(words, encoding="utf-8")) + UNKNOWN_WORD
        return tf.cast(tf.where(words == "", tf.zeros_like(found), found), tf.int32)


def _remove_folder(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not delete its parent's file
        shutil.rmtree(folder, ignore_errors=True)
