"""MPNet (Song et al. 2020): an encoder whose attention knows how far a key is from a query."""

import keras

from tfnlp.layers.types import DType
from tfnlp.models.roberta import PADDING_ID, roberta, roberta_pretrainer


def mpnet(
    vocab_size: int = 30527,
    num_layers: int = 12,
    hidden_size: int = 768,
    num_heads: int = 12,
    intermediate_size: int = 3072,
    max_positions: int = 512,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    activation: str = "gelu",
    norm_epsilon: float = 1e-12,
    initializer_range: float = 0.02,
    padding_id: int = PADDING_ID,
    position_buckets: int = 32,
    pooler: bool = False,
    seq_length: int | None = None,
    packed: bool = False,
    dtype: DType = None,
    name: str = "mpnet",
) -> keras.Model:
    """Return the encoder; the defaults are those of MPNet-base (108.90 M weights).

    It is `roberta` without segments, and all blocks add one `RelativePositionBias` to their scores:
    `softmax(Q K^T / sqrt(D) + b + mask) V`.

    Args:
        position_buckets: rows of the table of b, of which the first 32 are read.
        others: as of `roberta`.

    Inputs, outputs, errors: those of `roberta`. `input_type_ids` are not read.
    """
    return roberta(
        vocab_size,
        num_layers,
        hidden_size,
        num_heads,
        intermediate_size,
        max_positions,
        dropout,
        attention_dropout,
        activation,
        norm_epsilon,
        initializer_range,
        num_segments=0,
        padding_id=padding_id,
        position_buckets=position_buckets,
        pooler=pooler,
        seq_length=seq_length,
        packed=packed,
        dtype=dtype,
        name=name,
    )


def mpnet_pretrainer(
    encoder: keras.Model,
    activation: str = "gelu",
    norm_epsilon: float = 1e-12,
    initializer_range: float = 0.02,
    max_predictions: int | None = None,
    tied: bool = True,
    name: str = "mpnet_pretrainer",
) -> keras.Model:
    """Return `encoder` (from `mpnet`) with BERT's masked-LM head; it shares every weight.

    Args:
        encoder: a model made by `mpnet`.
        others: as of `roberta_pretrainer`.

    Inputs, outputs: those of `roberta_pretrainer`.
    """
    return roberta_pretrainer(
        encoder, activation, norm_epsilon, initializer_range, max_predictions, tied, name
    )
