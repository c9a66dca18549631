"""The table of word vectors of word2vec."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="tfnlp")
class WordEmbedding(keras.layers.Layer):
    """Row lookup `v(i) = E[i]`, initially uniform in `+-1/(2H)`, as in word2vec.c.

    Unlike `TokenEmbedding` it never reads the whole table, so that the cost of a step depends only
    on the rows that it uses.

    Args:
        vocab_size: rows of the table.
        hidden_size: columns of the table, H.

    Call: `ids` int `[B, T]` to `[B, T, H]` in the compute dtype.

    Raises:
        ValueError: for sizes below 1.
    """

    def __init__(self, vocab_size: int, hidden_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if vocab_size < 1 or hidden_size < 1:
            raise ValueError(
                f"vocab_size={vocab_size} and hidden_size={hidden_size} must be positive"
            )
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size

    def build(self, input_shape: Shape | None = None) -> None:
        reach = 0.5 / self.hidden_size
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocab_size, self.hidden_size),
            initializer=keras.initializers.RandomUniform(-reach, reach),
            autocast=False,
        )

    def call(self, inputs: Tensor) -> Tensor:
        return ops.cast(look_up(self.embeddings, inputs), self.compute_dtype)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((*inputs.shape, self.hidden_size), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
        }


def look_up(table: Tensor, ids: Tensor) -> Tensor:
    """Return rows of a weight, `[*ids, H]`, without reading the whole weight."""
    return ops.take(table.value, ids, axis=0)
