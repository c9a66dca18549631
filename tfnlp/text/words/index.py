"""Look-up of words in a fixed list inside the TensorFlow graph."""

from collections.abc import Sequence

import tensorflow as tf

from tfnlp.text.assets import line_number_table, lines_asset

UNKNOWN_WORD, FIRST_WORD = 1, 2


class WordIndex(tf.__internal__.tracking.AutoTrackable):
    """Ids of words: 0 for the empty word, 1 for one that is not in the list, then the list's.

    The list travels as an asset of a SavedModel.

    Args:
        words: distinct, without line breaks, in lower case: words are lower-cased to be looked up.
    """

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self.size = FIRST_WORD + len(words)
        # A table can't be made from an empty file. No word in lower case equals the first line.
        self.asset = lines_asset("words.txt", ["UNKNOWN", *words])
        self._table = line_number_table(self.asset, default_value=0)

    def ids(self, words: tf.Tensor) -> tf.Tensor:
        """Return the ids of strings of any shape, int32 of that shape."""
        found = self._table.lookup(tf.strings.lower(words, encoding="utf-8")) + UNKNOWN_WORD
        return tf.cast(tf.where(words == "", tf.zeros_like(found), found), tf.int32)
