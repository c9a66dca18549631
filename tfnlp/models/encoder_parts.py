"""What BERT and the encoders after it are assembled from; rows of several sequences.

In packed rows attention is kept apart by the `sequence_ids` of `TransformerBlock`; with positions
that restart, each sequence has the outputs that it has alone (Krell et al. 2021, "Efficient
sequence packing without cross-contamination").
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers import (
    Dropout,
    LayerNorm,
    LogitBias,
    MaskedLMHead,
    NextSentenceHead,
    PositionEmbedding,
    SegmentEmbedding,
    TokenEmbedding,
    TransformerBlock,
)
from tfnlp.layers.base import DType, Tensor

_LAST = 2**30  # larger than any place
_OF_BLOCKS = (
    "num_heads", "intermediate_size", "dropout", "attention_dropout", "activation", "norm_first",
    "norm_epsilon", "dtype",
)  # fmt: skip


def encoder_inputs(
    seq_length: int | None,
    packed: bool = False,
    pooler: bool = False,
    sequences: int | None = None,
) -> dict[str, Tensor]:
    """Return the symbolic inputs of an encoder, int32 `[B, T]`, or `[B, sequences, T]`.

    Packed rows have `sequence_ids`, too, and `first_positions` if the encoder has a pooler.
    """
    shape = (seq_length,) if sequences is None else (sequences, seq_length)
    inputs = {
        name: keras.Input(shape, dtype="int32", name=name)
        for name in ("input_word_ids", "input_mask", "input_type_ids")
    }
    if packed:
        inputs["sequence_ids"] = packed_input(seq_length)
    if packed and pooler:  # where each sequence begins, [B, S]
        inputs["first_positions"] = keras.Input((None,), dtype="int32", name="first_positions")
    return inputs


def encoder_positions(inputs: dict[str, Tensor]) -> Tensor | None:
    """Return the positions of packed rows, int32 `[B, T]`, which restart; None for other rows."""
    if "sequence_ids" not in inputs:
        return None
    sequence_ids = inputs["sequence_ids"]
    return restarted(places(sequence_ids), sequence_ids)


def embedding_parts(
    inputs: dict[str, Tensor],
    vocab_size: int,
    width: int,
    max_positions: int,
    num_segments: int,
    initializer: Callable[[], keras.Initializer],
    dtype: DType,
    positions: Tensor | None = None,
    offset: int = 0,
    types: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return `E[ids]`, `P[positions]` and `S[types]`, `[B, T, width]`; no S for no segments.

    The positions are those of packed rows, or 0, 1 and so on, unless they are given; `offset` is
    that of `PositionEmbedding`. The types are `input_type_ids` unless they are given.
    """
    more = {"initializer": initializer(), "dtype": dtype}
    tokens = TokenEmbedding(vocab_size, width, **more, name="token_embedding")
    tokens = tokens(inputs["input_word_ids"])
    positions = encoder_positions(inputs) if positions is None else positions
    more = {"initializer": initializer(), "dtype": dtype}
    table = PositionEmbedding(max_positions, offset=offset, **more, name="position_embedding")
    positions = table(tokens, positions=positions)
    if num_segments == 0:
        return tokens, positions, None
    more = {"initializer": initializer(), "dtype": dtype}
    table = SegmentEmbedding(num_segments, width, **more, name="segment_embedding")
    return tokens, positions, table(inputs["input_type_ids"] if types is None else types)


def embeddings(*arguments: Any) -> Tensor:
    """Return `E[ids] + S[types] + P[positions]` of `embedding_parts`."""
    tokens, positions, segments = embedding_parts(*arguments)
    return (tokens if segments is None else tokens + segments) + positions


def normalized(embedded: Tensor, norm_epsilon: float, dropout: float, dtype: DType) -> Tensor:
    """Return `drop(LN(x))` of the sum of the embeddings."""
    x = LayerNorm(norm_epsilon, dtype=dtype, name="embedding_norm")(embedded)
    return Dropout(dropout, dtype=dtype, name="embedding_dropout")(x)


def of_blocks(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return those of the arguments of a model that are its blocks'."""
    return {name: arguments[name] for name in _OF_BLOCKS if name in arguments}


def transformer_blocks(
    names: int | Sequence[str], initializer: Callable[[], keras.Initializer], **block: Any
) -> Iterator[TransformerBlock]:
    """Yield blocks with these names, or so many with the names `layer_0` and so on.

    A block draws the seeds of its initial weights when it is made and when it is called first.
    """
    names = [f"layer_{index}" for index in range(names)] if isinstance(names, int) else names
    for name in names:
        yield TransformerBlock(kernel_initializer=initializer(), name=name, **block)


def encoder_outputs(
    embedding_output: Tensor,
    inputs: dict[str, Tensor],
    blocks: Iterable[TransformerBlock],
    pooler: keras.Layer | None = None,
    position_bias: Tensor | None = None,
) -> dict[str, Any]:
    """Return the outputs of an encoder from x_0, `[B, T, H]`, on.

    Blocks are applied one after the other; one may come several times. A pooler makes
    `pooled_output`. All blocks add `position_bias` to their scores.
    """
    real = keras.ops.not_equal(inputs["input_mask"], 0)  # bool [B, T]
    x, outputs = embedding_output, []
    added = {} if position_bias is None else {"position_bias": position_bias}
    for block in blocks:
        x = block(x, mask=real, sequence_ids=inputs.get("sequence_ids"), **added)
        outputs.append(x)
    found = {
        "sequence_output": x,
        "encoder_outputs": outputs,
        "embedding_output": embedding_output,
    }
    if pooler is None:
        return found
    return {**found, "pooled_output": pooler(x, positions=inputs.get("first_positions"))}


def with_pretraining_heads(
    encoder: keras.Model,
    max_predictions: int | None,
    masked_lm: bool,
    sentences: str | None,
    name: str,
    initializer_range: float,
    **head: Any,
) -> keras.Model:
    """Return an encoder with the heads of pretraining, see `bert_pretrainer`, `masked_lm_logits`.

    `sentences` is what the head on `pooled_output` says of two sentences, such as "next_sentence",
    the start of its name and of that of its logits `[B, 2]`; None: no such head.
    """
    inputs, outputs = dict(encoder.input), dict(encoder.output)
    if masked_lm:
        positions = keras.Input((max_predictions,), dtype="int32", name="masked_lm_positions")
        inputs["masked_lm_positions"] = positions
        outputs["mlm_logits"] = masked_lm_logits(
            outputs["sequence_output"],
            positions,
            encoder.get_layer("token_embedding"),
            initializer_range=initializer_range,
            **head,
        )
    if sentences is not None:
        if "pooled_output" not in outputs:
            raise ValueError(f"{sentences}=True needs an encoder built with pooler=True")
        head = NextSentenceHead(
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=initializer_range),
            name=f"{sentences}_head",
        )
        outputs[f"{sentences}_logits"] = head(outputs["pooled_output"])
    return keras.Model(inputs, outputs, name=name)


def masked_lm_logits(
    sequence_output: Tensor,
    positions: Tensor,
    token_embedding: TokenEmbedding,
    activation: str,
    norm_epsilon: float,
    initializer_range: float,
    tied: bool = True,
) -> Tensor:
    """Return `LN(f(W h_p + b)) E^T + c`, float32 `[B, P, V]`, E the table of `token_embedding`.

    If it is not `tied`, E is a table of the head's own.
    """
    hidden = MaskedLMHead(
        activation,
        norm_epsilon,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=initializer_range),
        units=token_embedding.hidden_size,
        dtype=token_embedding.dtype_policy,
        name="masked_lm_head",
    )(sequence_output, positions)
    table = token_embedding if tied else output_table(token_embedding, "masked_lm_table")
    logits = table(hidden, reverse=True)
    return LogitBias(name="masked_lm_bias")(logits)


def output_table(token_embedding: TokenEmbedding, name: str) -> TokenEmbedding:
    """Return a table of outputs of the form of that of the inputs."""
    sizes = token_embedding.vocab_size, token_embedding.hidden_size
    initializer = token_embedding.initializer.clone()
    return TokenEmbedding(*sizes, initializer, dtype=token_embedding.dtype_policy, name=name)


def packed_input(seq_length: int | None) -> keras.KerasTensor:
    """Return the symbolic input `sequence_ids`, int32 `[B, T]`."""
    return keras.Input((seq_length,), dtype="int32", name="sequence_ids")


def restarted(counts: Tensor, sequence_ids: Tensor) -> Tensor:
    """Return `counts_bt - counts_bs`, s the place at which the sequence of t begins.

    Both are int32 `[B, T]`; positions side by side with the same id are of one sequence.
    """
    first = ops.ones_like(sequence_ids[:, :1], dtype="bool")
    new = ops.not_equal(sequence_ids[:, 1:], sequence_ids[:, :-1])
    begins = ops.concatenate([first, new], axis=1)  # [B, T]
    # Of places in ascending order those that begin a sequence come first.
    starts = ops.sort(ops.where(begins, places(sequence_ids), _LAST), axis=1)
    number = ops.cumsum(ops.cast(begins, "int32"), axis=1) - 1  # of the sequence, from 0
    starts = ops.take_along_axis(starts, number, axis=1)  # [B, T]
    return counts - ops.take_along_axis(counts, starts, axis=1)


def places(sequence_ids: Tensor) -> Tensor:
    """Return 0 ... T - 1 in each row, int32 `[B, T]`."""
    return ops.cumsum(ops.ones_like(sequence_ids), axis=1) - 1
