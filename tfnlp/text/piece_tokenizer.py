"""The base of tokenizers that cut words into pieces from a list: WordPiece and SentencePiece."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfnlp.text.graph_tokenizer import DENSE, PIECES, STRINGS, GraphTokenizer
from tfnlp.text.packing import merge_words, packing_ids
from tfnlp.text.strings import join_rows

_WORDS = tf.RaggedTensorSpec([None, None, None], tf.int32, ragged_rank=2)


class PieceTokenizer(GraphTokenizer):
    """Base of `WordPieceTokenizer` and `SentencePieceTokenizer`.

    A subclass defines `_encode` and calls `_set_pieces`.
    """

    def _set_pieces(
        self, pieces: Sequence[str], texts: Sequence[str], continues: Sequence[bool]
    ) -> None:
        """Set the tables of pieces by id, and trace the methods.

        Args:
            texts: what each piece adds to a string, with the space before it.
            continues: whether a piece goes on the word before it.
        """
        self.vocab_size = len(pieces)
        # A list would be tracked, and wrapped, element by element; an array is left alone.
        self._pieces = np.array([piece.encode() for piece in pieces], dtype=object)
        # On the host, where strings are and where tf.data runs.
        with tf.init_scope(), tf.device("CPU:0"):
            self._token_table = tf.constant(self._pieces)  # [V]
            self._text_table = tf.constant(texts)  # [V]
            self.is_continuation = tf.constant(continues)  # [V]
        self._trace(PIECES, _WORDS, DENSE)
        self.tokenize_words.get_concrete_function()

    @property
    def vocabulary(self) -> list[str]:
        """The pieces in the order of their ids."""
        return [piece.decode() for piece in self._pieces]

    @tf.function(input_signature=[STRINGS], autograph=False)
    def tokenize_words(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]` by word, int32 ragged `[B, (words), (pieces)]`."""
        pieces = self._encode(strings)
        ids, splits = pieces.values, pieces.row_splits  # [N], [B + 1]
        size = tf.size(ids, tf.int64)
        begins = tf.scatter_nd(splits[:, None], tf.ones_like(splits), [size + 1])[:-1]
        starts = (begins > 0) | ~tf.gather(self.is_continuation, ids)  # [N]
        piece_splits = tf.concat([tf.where(starts)[:, 0], size[None]], 0)
        words_before = tf.concat([[0], tf.cumsum(tf.cast(starts, tf.int64))], 0)  # [N + 1]
        word_splits = tf.gather(words_before, splits)
        return tf.RaggedTensor.from_nested_row_splits(
            ids, [word_splits, piece_splits], validate=False
        )

    @tf.function(autograph=False)
    def detokenize(self, ids: tf.RaggedTensor | tf.Tensor) -> tf.Tensor:
        """Return strings `[B]` of ids `[B, (pieces)]`, `[B, (words), (pieces)]` or `[B, T]`, int32.

        Padding and the tokens around texts are left out. What cleaning changed is not restored.
        """
        pieces = tf.ragged.map_flat_values(tf.gather, self._text_table, ids)
        if pieces.shape.rank == 3:
            pieces = merge_words(pieces)
        return tf.strings.strip(join_rows(pieces))

    @tf.function(input_signature=[], autograph=False)
    def special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Return size and special ids, int32 scalars, named as in the published preprocessors."""
        return packing_ids(self)
