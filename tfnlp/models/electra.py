"""ELECTRA (Clark et al. 2020): an encoder that tells which tokens a small generator replaced."""

import functools
from typing import Any

import keras

from tfnlp.layers import DiscriminatorHead, ReplacedTokens, TransformerBlock
from tfnlp.layers.base import DType, Tensor, check_positive
from tfnlp.layers.dense import Dense
from tfnlp.models.bert import BERT_BASE, BERT_LARGE, BERT_MINI, BERT_TINY
from tfnlp.models.encoder_parts import (
    embeddings,
    encoder_inputs,
    encoder_outputs,
    encoder_positions,
    masked_lm_logits,
    normalized,
    of_blocks,
    transformer_blocks,
)

# Small, base and large: the paper, table 6; base and large have BERT's blocks. Tiny and mini are no
# published ones.
ELECTRA_TINY = {"embedding_size": 64, **BERT_TINY}
ELECTRA_MINI = {"embedding_size": 128, **BERT_MINI}
ELECTRA_SMALL = {"embedding_size": 128, **BERT_MINI, "num_layers": 12}
ELECTRA_BASE = {"embedding_size": 768, **BERT_BASE}
ELECTRA_LARGE = {"embedding_size": 1024, **BERT_LARGE}

_EMBEDDINGS = (
    "token_embedding", "position_embedding", "segment_embedding", "embedding_norm",
    "embedding_dropout",
)  # fmt: skip
_NETWORK = ("embedding_projection", "layer_")


def electra(
    vocab_size: int = 30522,
    embedding_size: int = 128,
    num_layers: int = 12,
    hidden_size: int = 256,
    num_heads: int = 4,
    intermediate_size: int = 1024,
    max_positions: int = 512,
    num_segments: int = 2,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    activation: str = "gelu",
    norm_epsilon: float = 1e-12,
    initializer_range: float = 0.02,
    seq_length: int | None = None,
    packed: bool = False,
    dtype: DType = None,
    name: str = "electra",
) -> keras.Model:
    """Return the encoder; the defaults are those of ELECTRA-small (13.48 M weights).

    `e = drop(LN(E[ids] + P[0..T-1] + S[types]))` of width E, `x_0 = W e + b` of width H,
    `x_l = block_l(x_{l-1})`. With E = H there is no projection: `x_0 = e`. There is no pooler.

    Args:
        embedding_size: width E of the tables and their layer norm.
        initializer_range: standard deviation of the truncated normal that fills the weights; the
            projection from E to H starts from Glorot's uniform distribution, as in the reference
            code.
        others: as of `bert`.

    Inputs, outputs, errors: those of `bert` without a pooler; `embedding_output` is x_0.
    """
    block = of_blocks(locals())
    check_positive(embedding_size=embedding_size, num_layers=num_layers, hidden_size=hidden_size)

    initializer = functools.partial(keras.initializers.TruncatedNormal, stddev=initializer_range)
    inputs = encoder_inputs(seq_length, packed)
    x = embeddings(
        inputs, vocab_size, embedding_size, max_positions, num_segments, initializer, dtype
    )  # [B, T, E]
    x = normalized(x, norm_epsilon, dropout, dtype)
    network = _network(num_layers, hidden_size, embedding_size, initializer_range, **block)
    return keras.Model(inputs, _through(network, x, inputs), name=name)


def electra_discriminator(
    encoder: keras.Model,
    head: keras.Layer | None = None,
    initializer_range: float = 0.02,
    name: str = "electra_discriminator",
) -> keras.Model:
    """Return `encoder` (from `electra`) with the head that finds replaced tokens.

    `discriminator_logits_t = w . f(W x_Lt + b) + c`, above 0 where a token looks replaced
    (section 2). The model shares every weight with the encoder.

    Args:
        encoder: a model made by `electra`.
        head: the layer `discriminator_head` of another model; None: a new one.
        initializer_range: of a new head.

    Inputs: those of the encoder.

    Outputs: those of the encoder and `discriminator_logits` float32 `[B, T]`.
    """
    head = head or _discriminator_head(encoder, initializer_range)
    logits = head(encoder.output["sequence_output"])
    return keras.Model(encoder.input, {**encoder.output, "discriminator_logits": logits}, name=name)


def electra_pretrainer(
    encoder: keras.Model,
    generator_size: float = 0.25,
    initializer_range: float = 0.02,
    max_predictions: int | None = None,
    name: str = "electra_pretrainer",
) -> keras.Model:
    """Return generator and discriminator (ELECTRA, section 2); `encoder` is the discriminator's.

    The generator is a masked LM, its head as in `bert_pretrainer`. Samples of it replace the masks,
    see `ReplacedTokens`, and the discriminator reads the text that results. The two share the
    embeddings with their layer norm (section 3.2); the generator has a projection and blocks of its
    own, as many as the encoder, each `generator_size` times as wide.

    Args:
        encoder: a model made by `electra`, of which all weights are shared.
        generator_size: factor of width, heads and feed-forward nets; the paper's are 1/4 for small
            and large and 1/3 for base (table 6). Heads stay about as wide as the encoder's.
        initializer_range: of all that is new, as in `electra`.
        max_predictions: static number P of masked positions, or None for any number.

    Inputs: those of the encoder, with masks, and of `[B, P]` int32 `masked_lm_positions`, int32
    `masked_lm_ids`, the tokens of the text there, and float32 `masked_lm_weights`, 0 for padding.

    Outputs: dict of `mlm_logits` float32 `[B, P, V]` of the generator; `discriminator_logits` and
    `replaced`, float32 `[B, T]`, 1 where the discriminator reads another token than the text has.
    """
    packed = "sequence_ids" in encoder.input
    inputs = encoder_inputs(encoder.input["input_word_ids"].shape[1], packed)
    for key, dtype in (("positions", "int32"), ("ids", "int32"), ("weights", "float32")):
        key = f"masked_lm_{key}"
        inputs[key] = keras.Input((max_predictions,), dtype=dtype, name=key)

    network = [layer for layer in encoder.layers if layer.name.startswith(_NETWORK)]
    generator = _generator(encoder, network, generator_size, initializer_range)
    block = network[-1]
    logits = masked_lm_logits(
        _encoded(inputs, encoder, generator),
        inputs["masked_lm_positions"],
        encoder.get_layer("token_embedding"),
        block.activation,
        block.norm_epsilon,
        initializer_range,
    )
    text, replaced = ReplacedTokens(name="replaced_tokens")(
        inputs["input_word_ids"],
        inputs["masked_lm_positions"],
        inputs["masked_lm_ids"],
        inputs["masked_lm_weights"],
        logits,
    )
    read = _encoded({**inputs, "input_word_ids": text}, encoder, network)
    marks = _discriminator_head(encoder, initializer_range)(read)
    outputs = {"mlm_logits": logits, "discriminator_logits": marks, "replaced": replaced}
    return keras.Model(inputs, outputs, name=name)


def _network(
    count: int,
    width: int,
    embedding_size: int,
    initializer_range: float,
    prefix: str = "",
    dtype: DType = None,
    **block: Any,
) -> list[keras.Layer]:
    """Return the projection to `width`, if the embeddings have another one, and the blocks."""
    initializer = functools.partial(keras.initializers.TruncatedNormal, stddev=initializer_range)
    names = [f"{prefix}layer_{index}" for index in range(count)]
    blocks = list(transformer_blocks(names, initializer, dtype=dtype, **block))
    if embedding_size == width:
        return blocks
    return [Dense(width, dtype=dtype, name=f"{prefix}embedding_projection"), *blocks]


def _generator(
    encoder: keras.Model, network: list[keras.Layer], size: float, initializer_range: float
) -> list[keras.Layer]:
    """Return the layers of the generator above the embeddings."""
    block = of_blocks(network[-1].get_config() | {"dtype": network[-1].dtype_policy})
    heads = max(1, round(block["num_heads"] * size))
    width = encoder.output["sequence_output"].shape[-1] * size
    narrow = max(1, round(block["intermediate_size"] * size))
    return _network(
        sum(isinstance(layer, TransformerBlock) for layer in network),
        heads * max(1, round(width / heads)),
        encoder.get_layer("token_embedding").hidden_size,
        initializer_range,
        prefix="generator_",
        **{**block, "num_heads": heads, "intermediate_size": narrow},
    )


def _encoded(inputs: dict[str, Tensor], encoder: keras.Model, network: list[keras.Layer]) -> Tensor:
    """Return the output of these layers above the embeddings of an encoder, `[B, T, H]`."""
    token, position, segment, norm, drop = (encoder.get_layer(name) for name in _EMBEDDINGS)
    tokens = token(inputs["input_word_ids"])  # [B, T, E]
    positions = position(tokens, positions=encoder_positions(inputs))
    x = drop(norm(tokens + segment(inputs["input_type_ids"]) + positions))
    return _through(network, x, inputs)["sequence_output"]


def _through(network: list[keras.Layer], x: Tensor, inputs: dict[str, Tensor]) -> dict[str, Any]:
    """Return the outputs of an encoder whose embeddings are x, `[B, T, E]`."""
    if not isinstance(network[0], TransformerBlock):
        projection, *network = network
        x = projection(x)  # [B, T, H]
    return encoder_outputs(x, inputs, network)


def _discriminator_head(encoder: keras.Model, initializer_range: float) -> DiscriminatorHead:
    block = encoder.get_layer("layer_0")
    return DiscriminatorHead(
        block.activation,
        keras.initializers.TruncatedNormal(stddev=initializer_range),
        dtype=block.dtype_policy,
        name="discriminator_head",
    )
