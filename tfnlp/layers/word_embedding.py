"""The table of word vectors that word2vec learns."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tfnlp")
class WordEmbedding(keras.layers.Layer):
    """Row lookup `v(i) = E[i]`, at first uniform in `+-1/(2H)`, as in word2vec.c.

    Unlike `TokenEmbedding` it never reads the table as a whole, so that a step that touches few
    rows costs no more than they do.

    Args:
        vocab_size: rows of the table.
        hidden_size: columns of the table, H.

    Call: `ids` int `[B, T]` to `[B, T, H]` in the compute dtype.

    Raises:
        ValueError: for sizes below 1.
    """

    def __init__(self, vocab_size, hidden_size, **kwargs):
        super().__init__(**kwargs)
        if vocab_size < 1 or hidden_size < 1:
            raise ValueError(
                f"vocab_size={vocab_size} and hidden_size={hidden_size} must be positive"
            )
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size

    def build(self, input_shape=None):
        reach = 0.5 / self.hidden_size
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocab_size, self.hidden_size),
            initializer=keras.initializers.RandomUniform(-reach, reach),
            autocast=False,
        )

    def call(self, inputs):
        return ops.cast(look_up(self.embeddings, inputs), self.compute_dtype)

    def compute_output_spec(self, inputs):
        return keras.KerasTensor((*inputs.shape, self.hidden_size), dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
        }


def look_up(table, ids):
    """Rows of a weight, `[*ids, H]`, without reading the weight as a whole."""
    return ops.take(table.value, ids, axis=0)
