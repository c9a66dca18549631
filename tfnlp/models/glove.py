"""GloVe (Pennington, Socher & Manning 2014): word vectors from how often words are near others."""

import keras

from tfnlp.layers import GloVeLoss, WordEmbedding
from tfnlp.layers.types import DType


def glove(
    vocab_size: int,
    hidden_size: int = 100,
    x_max: float = 100.0,
    alpha: float = 0.75,
    dtype: DType = None,
    name: str = "glove",
) -> keras.Model:
    """Return the model of the cells of a co-occurrence matrix, see `GloVeLoss`.

    The vectors w are the rows of the layer `word_embedding`, w~ those of the kernel of the layer
    `loss`. As in the paper, `w + w~` are the vectors to use.

    Args:
        vocab_size: words V.
        hidden_size: width H.
        x_max: the count from which all cells weigh the same.
        alpha: the exponent of the weights below.
        dtype: a Keras dtype policy; None takes the global one. The losses are float32.
        name: name of the model.

    Inputs: dict as from `tfnlp.data.CooccurrenceBatches`: `input_word_ids` and `context_ids` int32
    `[B]`, `counts` float32 `[B]`.

    Outputs: dict of `word_emb` `[B, H]` and `losses` float32 `[B]`.

    Raises:
        ValueError: for sizes below 1, or an x_max or alpha that `GloVeLoss` refuses.
    """
    inputs = {
        key: keras.Input((), dtype=kind, name=key)
        for key, kind in (
            ("input_word_ids", "int32"),
            ("context_ids", "int32"),
            ("counts", "float32"),
        )
    }
    table = WordEmbedding(vocab_size, hidden_size, dtype=dtype, name="word_embedding")
    vectors = table(inputs["input_word_ids"])  # [B, H]
    losses = GloVeLoss(vocab_size, x_max, alpha, dtype=dtype, name="loss")(
        vectors,
        word_ids=inputs["input_word_ids"],
        context_ids=inputs["context_ids"],
        counts=inputs["counts"],
    )
    return keras.Model(inputs, {"word_emb": vectors, "losses": losses}, name=name)
