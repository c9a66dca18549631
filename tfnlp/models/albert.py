"""ALBERT (Lan et al. 2020): BERT with one block for all layers and a narrow token table."""

import functools

import keras

from tfnlp.layers import Pooler, TransformerBlock
from tfnlp.layers.base import check_positive
from tfnlp.layers.types import DType
from tfnlp.models.encoder_parts import (
    embeddings,
    encoder_inputs,
    encoder_outputs,
    normalized,
    pretraining_heads,
)
from tfnlp.models.sizes import check_transformer

# Base to xxlarge: the paper, table 1, of version 2 of the published models. The others are no
# published ones.
ALBERT_TINY = dict(
    embedding_size=64, num_layers=2, hidden_size=128, num_heads=2, intermediate_size=512
)
ALBERT_MINI = dict(
    embedding_size=64, num_layers=4, hidden_size=256, num_heads=4, intermediate_size=1024
)
ALBERT_SMALL = dict(
    embedding_size=128, num_layers=4, hidden_size=512, num_heads=8, intermediate_size=2048
)
ALBERT_MEDIUM = dict(
    embedding_size=128, num_layers=8, hidden_size=512, num_heads=8, intermediate_size=2048
)
ALBERT_BASE = dict(
    embedding_size=128, num_layers=12, hidden_size=768, num_heads=12, intermediate_size=3072
)
ALBERT_LARGE = dict(
    embedding_size=128, num_layers=24, hidden_size=1024, num_heads=16, intermediate_size=4096
)
ALBERT_XLARGE = dict(
    embedding_size=128, num_layers=24, hidden_size=2048, num_heads=16, intermediate_size=8192
)
ALBERT_XXLARGE = dict(
    embedding_size=128, num_layers=12, hidden_size=4096, num_heads=64, intermediate_size=16384
)


def albert(
    vocab_size: int = 30000,
    embedding_size: int = 128,
    num_layers: int = 12,
    hidden_size: int = 768,
    num_heads: int = 12,
    intermediate_size: int = 3072,
    max_positions: int = 512,
    num_segments: int = 2,
    dropout: float = 0.0,
    attention_dropout: float = 0.0,
    activation: str = "gelu_tanh",
    norm_epsilon: float = 1e-12,
    initializer_range: float = 0.02,
    pooler: bool = True,
    seq_length: int | None = None,
    packed: bool = False,
    dtype: DType = None,
    name: str = "albert",
) -> keras.Model:
    """Return the encoder; the defaults are those of ALBERT-base, version 2 (11.68 M weights).

    `e = drop(LN(E[ids] + P[0..T-1] + S[types]))` of width E, `x_0 = W e + b` of width H,
    `x_l = block(x_{l-1})` with the same block for all l, `pooled = tanh(W' x_L[CLS] + b')`.

    Args:
        vocab_size: pieces V.
        embedding_size: width E of the tables and their layer norm.
        num_layers: how often the block is applied, L.
        hidden_size: width H.
        num_heads: attention heads, a divisor of H.
        intermediate_size: width of the feed-forward net.
        max_positions: longest sequence.
        num_segments: token types.
        dropout, attention_dropout: rates while training.
        activation: "gelu_tanh" (that of the published models) or "gelu" (erf).
        norm_epsilon: epsilon of the layer norms.
        initializer_range: standard deviation of the truncated normal that fills the weights.
        pooler: add the pooler.
        seq_length: static length T, or None for any length.
        packed: add the input `sequence_ids` for rows of several sequences: positions side by side
            with the same number are one sequence, which attends to itself alone and has its own
            positions. T may not exceed max_positions. With a pooler also int32 `first_positions`
            `[B, S]`, where S sequences of a row begin; `pooled_output` is then `[B, S, H]`.
        dtype: a Keras dtype policy, e.g. "mixed_bfloat16"; None takes the global one.
        name: name of the model.

    Inputs: dict of int32 `[B, T]`: `input_word_ids`, `input_mask` (1 for real tokens),
    `input_type_ids`.

    Outputs: dict of `sequence_output` `[B, T, H]`, `encoder_outputs` (list of L, the last is
    `sequence_output`), `embedding_output`, x_0, `[B, T, H]` and, with a pooler, `pooled_output`
    `[B, H]`.

    Raises:
        ValueError: for sizes below 1, a hidden_size that is not a multiple of num_heads, a
            seq_length above max_positions, an unknown activation, or a rate outside [0, 1).
    """
    check_positive(embedding_size=embedding_size)
    check_transformer(num_layers, hidden_size, num_heads, seq_length, max_positions)

    initializer = functools.partial(keras.initializers.TruncatedNormal, stddev=initializer_range)
    inputs = encoder_inputs(seq_length, packed, pooler)
    x = embeddings(
        inputs, vocab_size, embedding_size, max_positions, num_segments, initializer, dtype
    )  # [B, T, E]
    x = normalized(x, norm_epsilon, dropout, dtype)
    x = keras.layers.Dense(
        hidden_size, kernel_initializer=initializer(), dtype=dtype, name="embedding_projection"
    )(x)  # [B, T, H]
    block = TransformerBlock(
        num_heads,
        intermediate_size,
        dropout=dropout,
        attention_dropout=attention_dropout,
        activation=activation,
        norm_epsilon=norm_epsilon,
        kernel_initializer=initializer(),
        dtype=dtype,
        name="shared_layer",
    )
    pool = Pooler(kernel_initializer=initializer(), dtype=dtype, name="pooler") if pooler else None
    outputs = encoder_outputs(x, inputs, [block] * num_layers, pool)
    return keras.Model(inputs, outputs, name=name)


def albert_pretrainer(
    encoder: keras.Model,
    activation: str = "gelu_tanh",
    norm_epsilon: float = 1e-12,
    initializer_range: float = 0.02,
    masked_lm: bool = True,
    sentence_order: bool = True,
    max_predictions: int | None = None,
    name: str = "albert_pretrainer",
) -> keras.Model:
    """Return `encoder` (from `albert`) with its pretraining heads; it shares every weight.

    `mlm_logits = LN(f(W h_p + b)) E^T + c` at the masked positions p only, of the width of the
    token table E; `sentence_order_logits = W pooled + b`: B follows A (0), A follows B (1)
    (section 3.1).

    Args:
        encoder: a model made by `albert`; with `sentence_order` it needs its pooler.
        activation, norm_epsilon, initializer_range: of the heads, as in `albert`.
        masked_lm, sentence_order: which heads to build.
        max_predictions: static number P of masked positions, or None for any number.
        name: name of the model.

    Inputs: those of the encoder and, with `masked_lm`, int32 `masked_lm_positions` `[B, P]`.

    Outputs: those of the encoder, `mlm_logits` float32 `[B, P, V]`, `sentence_order_logits`
    float32 `[B, 2]`.

    Raises:
        ValueError: for `sentence_order` with an encoder that has no pooler.
    """
    inputs, outputs = pretraining_heads(
        encoder,
        activation,
        norm_epsilon,
        initializer_range,
        max_predictions,
        masked_lm,
        "sentence_order" if sentence_order else None,
    )
    return keras.Model(inputs, outputs, name=name)
