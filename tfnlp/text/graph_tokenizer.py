"""What all tokenizers share: strings to ids and ids to tokens, in the TensorFlow graph."""

import tensorflow as tf

STRINGS = tf.TensorSpec([None], tf.string)
PIECES = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)
DENSE = tf.TensorSpec([None, None], tf.int32)


class GraphTokenizer(tf.__internal__.tracking.AutoTrackable):
    """Base of the tokenizers.

    A subclass defines `_encode` and `detokenize`, sets `_token_table`, strings `[V]`, and calls
    `_trace`.
    """

    def _trace(self, *ids: tf.TypeSpec) -> None:
        """Trace the methods, those that take ids for each of these specs.

        A SavedModel accepts only what was traced before, and a trace needs the object alive:
        `WordPieceTokenizer(path).tokenize(texts)` would not be.
        """
        self.tokenize.get_concrete_function()
        for spec in ids:
            self.detokenize.get_concrete_function(spec)
            self.id_to_token.get_concrete_function(spec)

    def _encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]`, int32 ragged `[B, (tokens)]`."""
        raise NotImplementedError

    @tf.function(input_signature=[STRINGS], autograph=False)
    def tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]`, int32 ragged `[B, (tokens)]`."""
        return self._encode(strings)

    @tf.function(autograph=False)
    def id_to_token(self, ids: tf.RaggedTensor | tf.Tensor) -> tf.RaggedTensor | tf.Tensor:
        """Return the tokens of ids int32 of any shape, strings of the same shape."""
        return tf.ragged.map_flat_values(tf.gather, self._token_table, ids)
