"""RoBERTa (Liu et al. 2019): BERT's encoder, trained longer on whole texts with dynamic masks.

And MPNet (Song et al. 2020), an encoder whose attention knows how far a key is from a query.
"""

import functools

import keras

from tfnlp.layers import Pooler, RelativePositionBias
from tfnlp.layers.base import DType, check_positive
from tfnlp.models.bert import (
    BERT_BASE,
    BERT_LARGE,
    BERT_MEDIUM,
    BERT_MINI,
    BERT_SMALL,
    BERT_TINY,
    bert_pretrainer,
)
from tfnlp.models.encoder_parts import (
    embedding_parts,
    encoder_inputs,
    encoder_outputs,
    normalized,
    of_blocks,
    restarted,
    transformer_blocks,
)

# Base and large are the paper's (section 3.1 and table 9), with BERT's widths; so are the others,
# which no one published.
ROBERTA_TINY = dict(BERT_TINY)
ROBERTA_MINI = dict(BERT_MINI)
ROBERTA_SMALL = dict(BERT_SMALL)
ROBERTA_MEDIUM = dict(BERT_MEDIUM)
ROBERTA_BASE = dict(BERT_BASE)
ROBERTA_LARGE = dict(BERT_LARGE)

PADDING_ID = 1  # positions begin after it


def roberta(
    vocab_size: int = 50265,
    num_layers: int = 12,
    hidden_size: int = 768,
    num_heads: int = 12,
    intermediate_size: int = 3072,
    max_positions: int = 512,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    activation: str = "gelu",
    norm_epsilon: float = 1e-5,
    initializer_range: float = 0.02,
    num_segments: int = 1,
    padding_id: int = PADDING_ID,
    position_buckets: int | None = None,
    pooler: bool = False,
    seq_length: int | None = None,
    packed: bool = False,
    dtype: DType = None,
    name: str = "roberta",
) -> keras.Model:
    """Return the encoder; the defaults are those of RoBERTa-base (124.06 M weights).

    `x_0 = drop(LN(E[ids] + P[p] + S[0]))`, `x_l = block_l(x_{l-1})`; the positions of real tokens
    are counted from 2, `p_t = 1 + sum_{i <= t} mask_i`, and padding, which a text may have written,
    has position 1: P has `max_positions + 2` rows, of which the first is never read. All tokens are
    of one segment.

    Args:
        num_segments: token types; 1: `input_type_ids` are not read; 0: no `S`.
        padding_id: the id and the position of padding, 1 above; positions before it are never read.
        position_buckets: see `mpnet`; None: scores have nothing added.
        pooler: add BERT's pooler, which pretraining does not train.
        others: as of `bert`.

    Inputs, outputs, errors: those of `bert`.
    """
    block = of_blocks(locals())
    check_positive(num_layers=num_layers)

    initializer = functools.partial(keras.initializers.TruncatedNormal, stddev=initializer_range)
    inputs = encoder_inputs(seq_length, packed, pooler)
    ids = inputs["input_word_ids"]
    real = (inputs["input_mask"] != 0) & (ids != padding_id)
    mask = keras.ops.cast(real, "int32")
    before = keras.ops.cumsum(mask, axis=1) - mask  # real tokens
    if packed:
        before = restarted(before, inputs["sequence_ids"])
    positions = (before + 1) * mask + padding_id  # [B, T]
    types = inputs["input_type_ids"]
    tokens, places, segments = embedding_parts(
        inputs,
        vocab_size,
        hidden_size,
        max_positions,
        num_segments,
        initializer,
        dtype,
        positions,
        padding_id + 1,
        types if num_segments > 1 else keras.ops.zeros_like(types),
    )
    x = tokens + places
    if segments is not None:
        x = x + segments
    blocks = list(transformer_blocks(num_layers, initializer, **block))
    pool = Pooler(kernel_initializer=initializer(), dtype=dtype, name="pooler") if pooler else None
    x = normalized(x, norm_epsilon, dropout, dtype)
    bias = None
    if position_buckets is not None:
        bias = RelativePositionBias(
            num_heads, position_buckets, initializer(), dtype=dtype, name="distance_embedding"
        )(x)
    outputs = encoder_outputs(x, inputs, blocks, pool, bias)
    return keras.Model(inputs, outputs, name=name)


def roberta_pretrainer(
    encoder: keras.Model,
    activation: str = "gelu",
    norm_epsilon: float = 1e-5,
    initializer_range: float = 0.02,
    max_predictions: int | None = None,
    tied: bool = True,
    name: str = "roberta_pretrainer",
) -> keras.Model:
    """Return `encoder` (from `roberta`) with its masked-LM head; it shares every weight.

    The head is BERT's, `mlm_logits = LN(f(W h_p + b)) E^T + c`; there are no next sentences
    (section 4.2).

    Args, inputs, outputs: those of `bert_pretrainer` without next sentences.
    """
    return bert_pretrainer(**locals(), next_sentence=False)


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
    """Return the encoder of Song et al. 2020; the defaults are MPNet-base's (108.90 M weights).

    It is `roberta` without segments, and all blocks add one `RelativePositionBias` to their scores:
    `softmax(Q K^T / sqrt(D) + b + mask) V`.

    Args:
        position_buckets: rows of the table of b, of which the first 32 are read.
        others: as of `roberta`.

    Inputs, outputs, errors: those of `roberta`. `input_type_ids` are not read.
    """
    return roberta(**locals(), num_segments=0)


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

    Args, inputs, outputs: those of `roberta_pretrainer`.
    """
    return roberta_pretrainer(**locals())
