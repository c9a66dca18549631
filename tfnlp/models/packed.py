"""Rows of several sequences, one after the other: where each begins, and its positions.

Attention is kept apart by the `sequence_ids` of `TransformerBlock`; with positions that restart,
each sequence has the outputs that it has alone (Krell et al. 2021, "Efficient sequence packing
without cross-contamination").
"""

import keras
from keras import ops

from tfnlp.layers.types import Tensor

_LAST = 2**30  # larger than any place


def packed_input(seq_length: int | None) -> keras.KerasTensor:
    """Return the symbolic input `sequence_ids`, int32 `[B, T]`."""
    return keras.Input((seq_length,), dtype="int32", name="sequence_ids")


def first_positions_input() -> keras.KerasTensor:
    """Return the symbolic input `first_positions`, int32 `[B, S]`, where each sequence begins."""
    return keras.Input((None,), dtype="int32", name="first_positions")


def restarted(counts: Tensor, sequence_ids: Tensor) -> Tensor:
    """Return `counts_bt - counts_bs`, s the place at which the sequence of t begins.

    Args:
        counts: int32 `[B, T]`.
        sequence_ids: int32 `[B, T]`; positions side by side with the same number are of one
            sequence.
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
