"""BERT (Devlin et al. 2019): a bidirectional Transformer encoder and its pretraining heads."""

import functools

import keras

from tfnlp.layers import Pooler
from tfnlp.layers.base import DType, check_positive
from tfnlp.models.encoder_parts import (
    embeddings,
    encoder_inputs,
    encoder_outputs,
    normalized,
    of_blocks,
    transformer_blocks,
    with_pretraining_heads,
)

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
    packed: bool = False,
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
        packed: add the input `sequence_ids` for rows of several sequences: positions side by side
            with the same number are one sequence, which attends to itself alone and has its own
            positions. T may not exceed max_positions. With a pooler also int32 `first_positions`
            `[B, S]`, where S sequences of a row begin; `pooled_output` is then `[B, S, H]`.
        dtype: a Keras dtype policy, e.g. "mixed_bfloat16"; None takes the global one.

    Inputs: dict of int32 `[B, T]`: `input_word_ids`, `input_mask` (1 for real tokens),
    `input_type_ids`.

    Outputs: dict of `sequence_output` `[B, T, H]`, `encoder_outputs` (list of L, the last is
    `sequence_output`), `embedding_output` `[B, T, H]` and, with a pooler, `pooled_output`
    `[B, H]`.

    Raises:
        ValueError: for sizes below 1, a hidden_size that is not a multiple of num_heads, a
            seq_length above max_positions, an unknown activation, or a rate outside [0, 1).
    """
    block = of_blocks(locals())
    check_positive(num_layers=num_layers)

    initializer = functools.partial(keras.initializers.TruncatedNormal, stddev=initializer_range)
    inputs = encoder_inputs(seq_length, packed, pooler)
    x = embeddings(
        inputs, vocab_size, hidden_size, max_positions, num_segments, initializer, dtype
    )  # [B, T, H]
    blocks = list(transformer_blocks(num_layers, initializer, **block))
    pool = Pooler(kernel_initializer=initializer(), dtype=dtype, name="pooler") if pooler else None
    x = normalized(x, norm_epsilon, dropout, dtype)
    outputs = encoder_outputs(x, inputs, blocks, pool)
    return keras.Model(inputs, outputs, name=name)


def bert_pretrainer(
    encoder: keras.Model,
    activation: str = "gelu",
    norm_epsilon: float = 1e-12,
    initializer_range: float = 0.02,
    masked_lm: bool = True,
    next_sentence: bool = True,
    max_predictions: int | None = None,
    tied: bool = True,
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
        tied: whether E is the token table; else the head has one of its own.

    Inputs: those of the encoder and, with `masked_lm`, int32 `masked_lm_positions` `[B, P]`.

    Outputs: those of the encoder, `mlm_logits` float32 `[B, P, V]`, `next_sentence_logits`
    float32 `[B, 2]`.

    Raises:
        ValueError: for `next_sentence` with an encoder that has no pooler.
    """
    arguments = locals()
    sentences = "next_sentence" if arguments.pop("next_sentence") else None
    return with_pretraining_heads(**arguments, sentences=sentences)
