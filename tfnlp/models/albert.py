"""ALBERT (Lan et al. 2020): BERT with one block for all layers and a narrow token table."""

import functools

import keras

from tfnlp.layers import Pooler
from tfnlp.layers.base import DType, check_positive
from tfnlp.layers.dense import Dense
from tfnlp.models.bert import (
    BERT_BASE,
    BERT_LARGE,
    BERT_MEDIUM,
    BERT_MINI,
    BERT_SMALL,
    BERT_TINY,
)
from tfnlp.models.encoder_parts import (
    embeddings,
    encoder_inputs,
    encoder_outputs,
    normalized,
    of_blocks,
    transformer_blocks,
    with_pretraining_heads,
)

# Base to xxlarge: the paper, table 1, of version 2 of the published models; up to large the blocks
# are those of BERT. The others are no published ones.
ALBERT_TINY = {"embedding_size": 64, **BERT_TINY}
ALBERT_MINI = {"embedding_size": 64, **BERT_MINI}
ALBERT_SMALL = {"embedding_size": 128, **BERT_SMALL}
ALBERT_MEDIUM = {"embedding_size": 128, **BERT_MEDIUM}
ALBERT_BASE = {"embedding_size": 128, **BERT_BASE}
ALBERT_LARGE = {"embedding_size": 128, **BERT_LARGE}
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
    num_groups: int = 1,
    group_blocks: int = 1,
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
        embedding_size: width E of the tables and their layer norm.
        num_layers: how often the block is applied, L.
        num_groups: blocks that follow each other: layer l has number `l num_groups / L`, rounded
            down (section 3.1 has one, and no published model more).
        group_blocks: blocks of each of these, of which a layer is made.
        activation: "gelu_tanh" (that of the published models) or "gelu" (erf).
        others: as of `bert`.

    Inputs, outputs, errors: those of `bert`; `embedding_output` is x_0.
    """
    block = of_blocks(locals())
    check_positive(embedding_size=embedding_size, num_layers=num_layers)
    check_positive(hidden_size=hidden_size, num_groups=num_groups, group_blocks=group_blocks)

    initializer = functools.partial(keras.initializers.TruncatedNormal, stddev=initializer_range)
    inputs = encoder_inputs(seq_length, packed, pooler)
    x = embeddings(
        inputs, vocab_size, embedding_size, max_positions, num_segments, initializer, dtype
    )  # [B, T, E]
    x = normalized(x, norm_epsilon, dropout, dtype)
    x = Dense(
        hidden_size, kernel_initializer=initializer(), dtype=dtype, name="embedding_projection"
    )(x)  # [B, T, H]
    blocks = list(transformer_blocks(shared_blocks(num_groups, group_blocks), initializer, **block))
    applied = [
        block
        for layer in range(num_layers)
        for block in blocks[int(layer / (num_layers / num_groups)) * group_blocks :][:group_blocks]
    ]
    pool = Pooler(kernel_initializer=initializer(), dtype=dtype, name="pooler") if pooler else None
    outputs = encoder_outputs(x, inputs, applied, pool)
    return keras.Model(inputs, outputs, name=name)


def shared_blocks(num_groups: int, group_blocks: int) -> list[str]:
    """Return the names of the blocks of an encoder, group by group."""
    if num_groups == group_blocks == 1:
        return ["shared_layer"]
    return [f"shared_layer_{i}_{j}" for i in range(num_groups) for j in range(group_blocks)]


def albert_pretrainer(
    encoder: keras.Model,
    activation: str = "gelu_tanh",
    norm_epsilon: float = 1e-12,
    initializer_range: float = 0.02,
    masked_lm: bool = True,
    sentence_order: bool = True,
    max_predictions: int | None = None,
    tied: bool = True,
    name: str = "albert_pretrainer",
) -> keras.Model:
    """Return `encoder` (from `albert`) with its pretraining heads; it shares every weight.

    `mlm_logits = LN(f(W h_p + b)) E^T + c` at the masked positions p only, of the width of the
    token table E; `sentence_order_logits = W pooled + b`: B follows A (0), A follows B (1)
    (section 3.1).

    Args:
        encoder: a model made by `albert`; with `sentence_order` it needs its pooler.
        sentence_order: whether to build the second head.
        others: as of `bert_pretrainer`.

    Inputs, outputs, errors: those of `bert_pretrainer`, with `sentence_order_logits` float32
    `[B, 2]`.
    """
    arguments = locals()
    sentences = "sentence_order" if arguments.pop("sentence_order") else None
    return with_pretraining_heads(**arguments, sentences=sentences)
