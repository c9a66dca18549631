"""The table of word vectors of word2vec."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Layer, check_positive
from tfnlp.layers.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="tfnlp")
class WordEmbedding(Layer):
    """Row lookup `v(i) = E[i]`, initially uniform in `+-1/(2H)`, as in word2vec.c.

    Unlike `TokenEmbedding` it never reads the whole table, so that the cost of a step depends only
    on the rows that it uses.

    Args:
        vocab_size: rows of the table.
        hidden_size: columns of the table, H.

    Call: `ids` int `[B, T]` to `[B, T, H]` in the compute dtype.
    """

    def __init__(self, vocab_size: int, hidden_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, hidden_size=hidden_size)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size

    def build(self, input_shape: Shape | None = None) -> None:
        self._add_table(self.vocab_size)

    def _add_table(self, rows: int) -> None:
        reach = 0.5 / self.hidden_size
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(rows, self.hidden_size),
            initializer=keras.initializers.RandomUniform(-reach, reach),
            autocast=False,
        )

    def call(self, inputs: Tensor) -> Tensor:
        return ops.cast(look_up(self.embeddings, inputs), self.compute_dtype)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((*inputs.shape, self.hidden_size), dtype=self.compute_dtype)


def look_up(table: Tensor, ids: Tensor) -> Tensor:
    """Return rows of a weight, `[*ids, H]`, without reading the whole weight."""
    return ops.take(table.value, ids, axis=0)
