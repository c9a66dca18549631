"""BERT (Devlin et al. 2019): a bidirectional Transformer encoder and its pretraining heads."""

import functools
from collections.abc import Callable
from typing import Any

import keras

from tfnlp.layers import (
    Dropout,
    LayerNorm,
    LogitBias,
    MaskedLMHead,
    NextSentenceHead,
    Pooler,
    PositionEmbedding,
    SegmentEmbedding,
    TokenEmbedding,
    TransformerBlock,
)
from tfnlp.layers.types import DType, Tensor
from tfnlp.models.sizes import check_transformer

# Published sizes: tiny to medium from Turc et al. 2019 (table 1), base and large from the paper.
BERT_TINY = dict(num_layers=2, hidden_size=128, num_heads=2, intermediate_size=512)
BERT_MINI = dict(num_layers=4, hidden_size=256, num_heads=4, intermediate_size=1024)
BERT_SMALL = dict(num_layers=4, hidden_size=512, num_heads=8, intermediate_size=2048)
BERT_MEDIUM = dict(num_layers=8, hidden_size=512, num_heads=8, intermediate_size=2048)
BERT_BASE = dict(num_layers=12, hidden_size=768, num_heads=12, intermediate_size=3072)
BERT_LARGE = dict(num_layers=24, hidden_size=1024, num_heads=16, intermediate_size=4096)


def bert(
    vocab_size: int = 30522,
    num_layers: int = 12,
    hidden_size: int = 768,
    num_heads: int = 12,
    intermediate_size: int = 3072,
    max_positions: int = 512,
    num_segments: int = 2,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    activation: str = "gelu",
    norm_epsilon: float = 1e-12,
    initializer_range: float = 0.02,
    pooler: bool = True,
    seq_length: int | None = None,
    dtype: DType = None,
    name: str = "bert",
) -> keras.Model:
    """Return the encoder; the defaults are those of BERT-base, uncased (109.48 M weights).

    `x_0 = drop(LN(E[ids] + P[0..T-1] + S[types]))`, `x_l = block_l(x_{l-1})`,
    `pooled = tanh(W x_L[CLS] + b)`.

    Args:
        vocab_size: word pieces V.
        num_layers: Transformer blocks L.
        hidden_size: width H.
        num_heads: attention heads, a divisor of H.
        intermediate_size: width of the feed-forward nets.
        max_positions: longest sequence.
        num_segments: token types; 0: no `S`, and `input_type_ids` are not read.
        dropout, attention_dropout: rates while training.
        activation: "gelu" (erf, the paper's) or "gelu_tanh".
        norm_epsilon: epsilon of the layer norms.
        initializer_range: standard deviation of the truncated normal that fills the weights.
        pooler: add the pooler.
        seq_length: static length T, or None for any length.
        dtype: a Keras dtype policy, e.g. "mixed_bfloat16"; None takes the global one.
        name: name of the model.

    Inputs: dict of int32 `[B, T]`: `input_word_ids`, `input_mask` (1 for real tokens),
    `input_type_ids`.

    Outputs: dict of `sequence_output` `[B, T, H]`, `encoder_outputs` (list of L, the last is
    `sequence_output`), `embedding_output` `[B, T, H]` and, with a pooler, `pooled_output`
    `[B, H]`.

    Raises:
        ValueError: for sizes below 1, a hidden_size that is not a multiple of num_heads, a
            seq_length above max_positions, an unknown activation, or a rate outside [0, 1).
    """
    check_transformer(num_layers, hidden_size, num_heads, seq_length, max_positions)

    initializer = functools.partial(keras.initializers.TruncatedNormal, stddev=initializer_range)
    inputs = encoder_inputs(seq_length)
    table = {"initializer": initializer, "dtype": dtype}
    x = _embedded(inputs, vocab_size, hidden_size, max_positions, num_segments, **table)
    return encoder_on(
        inputs,
        x,
        num_layers,
        pooler,
        name,
        num_heads=num_heads,
        intermediate_size=intermediate_size,
        dropout=dropout,
        attention_dropout=attention_dropout,
        activation=activation,
        norm_epsilon=norm_epsilon,
        kernel_initializer=initializer,
        dtype=dtype,
    )


def encoder_inputs(seq_length: int | None) -> dict[str, Tensor]:
    """Return the symbolic inputs of an encoder, int32 `[B, T]`."""
    return {
        name: keras.Input((seq_length,), dtype="int32", name=name)
        for name in ("input_word_ids", "input_mask", "input_type_ids")
    }


def encoder_on(
    inputs: dict[str, Tensor],
    embedded: Tensor,
    num_layers: int,
    pooler: bool,
    name: str,
    *,
    dropout: float,
    norm_epsilon: float,
    kernel_initializer: Callable[[], keras.Initializer],
    dtype: DType,
    **block: Any,
) -> keras.Model:
    """Return the encoder on the sum of its embeddings: layer norm, dropout, blocks and pooler.

    Args:
        inputs: from `encoder_inputs`.
        embedded: the sum of the embeddings, `[B, T, H]`.
        num_layers: blocks.
        pooler: add the pooler.
        name: of the model.
        dropout, norm_epsilon, dtype: as in `bert`.
        kernel_initializer: makes the initializer of each kernel.
        **block: more arguments of `TransformerBlock`.
    """
    real = keras.ops.not_equal(inputs["input_mask"], 0)  # bool [B, T]
    x = LayerNorm(norm_epsilon, dtype=dtype, name="embedding_norm")(embedded)
    x = embedding_output = Dropout(dropout, dtype=dtype, name="embedding_dropout")(x)

    encoder_outputs = []
    for index in range(num_layers):
        x = TransformerBlock(
            dropout=dropout,
            norm_epsilon=norm_epsilon,
            kernel_initializer=kernel_initializer(),
            dtype=dtype,
            name=f"layer_{index}",
            **block,
        )(x, mask=real)
        encoder_outputs.append(x)

    outputs = {
        "sequence_output": x,
        "encoder_outputs": encoder_outputs,
        "embedding_output": embedding_output,
    }
    if pooler:
        pool = Pooler(kernel_initializer=kernel_initializer(), dtype=dtype, name="pooler")
        outputs["pooled_output"] = pool(x)
    return keras.Model(inputs, outputs, name=name)


def _embedded(
    inputs: dict[str, Tensor],
    vocab_size: int,
    hidden_size: int,
    max_positions: int,
    num_segments: int,
    initializer: Callable[[], keras.Initializer],
    dtype: DType,
) -> Tensor:
    """Return `E[ids] + S[types] + P[0..T-1]`, `[B, T, H]`."""
    tokens = TokenEmbedding(
        vocab_size, hidden_size, initializer=initializer(), dtype=dtype, name="token_embedding"
    )(inputs["input_word_ids"])
    positions = PositionEmbedding(
        max_positions, initializer=initializer(), dtype=dtype, name="position_embedding"
    )(tokens)
    if num_segments == 0:
        return tokens + positions
    segments = SegmentEmbedding(
        num_segments, hidden_size, initializer=initializer(), dtype=dtype, name="segment_embedding"
    )(inputs["input_type_ids"])
    return tokens + segments + positions


def bert_pretrainer(
    encoder: keras.Model,
    activation: str = "gelu",
    norm_epsilon: float = 1e-12,
    initializer_range: float = 0.02,
    masked_lm: bool = True,
    next_sentence: bool = True,
    max_predictions: int | None = None,
    name: str = "bert_pretrainer",
) -> keras.Model:
    """Return `encoder` (from `bert`) with its pretraining heads; it shares every weight.

    `mlm_logits = LN(f(W h_p + b)) E^T + c` at the masked positions p only, E tied to the token
    table (BERT, section 3.1, Task 1); `next_sentence_logits = W pooled + b` (Task 2).

    Args:
        encoder: a model made by `bert`; with `next_sentence` it needs its pooler.
        activation, norm_epsilon, initializer_range: of the heads, as in `bert`.
        masked_lm, next_sentence: which heads to build.
        max_predictions: static number P of masked positions, or None for any number.
        name: name of the model.

    Inputs: those of the encoder and, with `masked_lm`, int32 `masked_lm_positions` `[B, P]`.

    Outputs: those of the encoder, `mlm_logits` float32 `[B, P, V]`, `next_sentence_logits`
    float32 `[B, 2]`.

    Raises:
        ValueError: for `next_sentence` with an encoder that has no pooler.
    """
    inputs, outputs = dict(encoder.input), dict(encoder.output)
    token_embedding = encoder.get_layer("token_embedding")
    if masked_lm:
        positions = keras.Input((max_predictions,), dtype="int32", name="masked_lm_positions")
        inputs["masked_lm_positions"] = positions
        outputs["mlm_logits"] = masked_lm_logits(
            outputs["sequence_output"],
            positions,
            token_embedding,
            activation,
            norm_epsilon,
            initializer_range,
        )
    if next_sentence:
        if "pooled_output" not in outputs:
            raise ValueError("next_sentence=True needs an encoder built with pooler=True")
        initializer = keras.initializers.TruncatedNormal(stddev=initializer_range)
        outputs["next_sentence_logits"] = NextSentenceHead(
            kernel_initializer=initializer, name="next_sentence_head"
        )(outputs["pooled_output"])
    return keras.Model(inputs, outputs, name=name)


def masked_lm_logits(
    sequence_output: Tensor,
    positions: Tensor,
    token_embedding: TokenEmbedding,
    activation: str,
    norm_epsilon: float,
    initializer_range: float,
) -> Tensor:
    """Return `LN(f(W h_p + b)) E^T + c`, float32 `[B, P, V]`, E the table of `token_embedding`."""
    hidden = MaskedLMHead(
        activation,
        norm_epsilon,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=initializer_range),
        units=token_embedding.hidden_size,
        dtype=token_embedding.dtype_policy,
        name="masked_lm_head",
    )(sequence_output, positions)
    logits = token_embedding(hidden, reverse=True)
    return LogitBias(name="masked_lm_bias")(logits)
