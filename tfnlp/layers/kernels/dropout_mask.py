"""Random masks that cost a tenth of a Philox number an element.

Word `(i, j)` of a table is `mix(a_i xor b_j)`, where a and b are Philox draws and `mix` is a
bijection of 32 bits. Each half of a word decides about one element of the mask. Every element is
uniform and every two elements of different words are independent; beyond that the quality rests
on the mixing.
"""

import keras
import numpy as np
from keras import ops

from tfnlp.layers.kernels.backend import by_target
from tfnlp.layers.types import Tensor

COLUMNS = 512  # 32-bit words in a row of the table where the width of the mask makes a bad one
_WIDTHS = 64, 4096  # others take too many draws
# The finalizer of MurmurHash3: a bijection of 32 bits in which each bit depends on all.
_SHIFTS, _FACTORS = (16, 13, 16), np.array([0x85EBCA6B, 0xC2B2AE35], "uint32")


def dropout_mask(
    count: Tensor, width: int | None, dropped: int, seed: keras.random.SeedGenerator
) -> Tensor:
    """Return whether each of `count` random 16-bit numbers is at least `dropped`.

    Args:
        count: elements, an int or an int scalar.
        width: size of the last axis of what is dropped out, None if unknown.
        dropped: from 0 to 65535; the probability of False is `dropped / 65536`.
        seed: advances by one draw.

    Returns:
        bool `[count / width, width]`, for a width that is None or makes a bad table `[count]`.
    """
    if width is None or not _WIDTHS[0] <= width <= _WIDTHS[1]:
        rows = (count + (2 * COLUMNS - 1)) // (2 * COLUMNS)
        return ops.reshape(_table(rows, 2 * COLUMNS, dropped, seed), (-1,))[:count]
    return _table(count // width, width, dropped, seed)


def _table(rows: Tensor, width: int, dropped: int, seed: keras.random.SeedGenerator) -> Tensor:
    """Return a random mask, bool `[rows, width]`."""
    columns = -(-width // 2)
    draws = keras.random.randint((columns + rows,), -(2**31), 2**31 - 1, dtype="int32", seed=seed)

    def on_tpu(draws: Tensor) -> Tensor:
        return mask_of_draws(draws, width, dropped, halves=False)

    return by_target(on_tpu, lambda draws: mask_of_draws(draws, width, dropped), draws)


def mask_of_draws(draws: Tensor, width: int, dropped: int, halves: bool = True) -> Tensor:
    """Return the mask that Philox draws decide, computed with 32-bit integers only.

    Args:
        draws: int32 `[ceil(width / 2) + rows]`: b, then a.
        width, dropped, halves: of a row, from 0 to 65535, as in `mask_of_rows`.

    Returns:
        bool `[rows, width]`: the low halves of the words of a row, then the high ones. To alternate
        them, as they lie in a CPU's memory, a TPU would rearrange the whole mask three times.
    """
    columns = -(-width // 2)
    draws = ops.cast(draws, "uint32")
    a, b = draws[columns:, None], draws[:columns]
    if halves:
        low, high = _halves(a, b, dropped)
        return ops.concatenate([low, high[:, : width - columns]], -1)
    b = ops.concatenate([b, b[: width - columns]])
    shift = np.where(np.arange(width) < columns, np.uint32(16), np.uint32(0)).astype("uint32")
    words = _mixed(ops.bitwise_xor(a, b))
    return ops.greater_equal(ops.left_shift(words, shift), np.uint32(dropped << 16))


def mask_of_rows(
    rows: Tensor, columns: Tensor, count: int, dropped: int, halves: bool = True
) -> Tensor:
    """Return a mask whose word `(m, t, s)` is that of row `(m, t)` and column s.

    Args:
        rows: int32 `[B, ceil(count / 2), T]`, Philox draws a.
        columns: int32 `[S]`, Philox draws b.
        count: size of the second axis of the mask: the low halves of all words, then the high
            ones, so that a TPU moves nothing.
        dropped: from 0 to 65535.
        halves: compute each word once; otherwise for each of its two elements, which a compiler
            can make part of what reads the mask.

    Returns:
        bool `[B, count, T, S]`.
    """
    a, b = ops.cast(rows, "uint32"), ops.cast(columns, "uint32")
    if halves:
        low, high = _halves(a[..., None], b, dropped)
        return ops.concatenate([low, high[:, : count // 2]], 1)
    of_high = np.arange(count) >= rows.shape[1]
    shift = np.where(of_high, np.uint32(0), np.uint32(16)).astype("uint32")[:, None, None]
    a = ops.concatenate([a, a[:, : count // 2]], 1)
    words = _mixed(ops.bitwise_xor(a[..., None], b))
    return ops.greater_equal(ops.left_shift(words, shift), np.uint32(dropped << 16))


def _halves(a: Tensor, b: Tensor, dropped: int) -> tuple[Tensor, Tensor]:
    """Return whether the low and the high halves of the words of `a xor b` are at least `dropped`.

    The constants are 32-bit numbers: beside a Python number Keras would convert the words to 64
    bits.
    """
    words = _mixed(ops.bitwise_xor(a, b))
    least = np.uint32(dropped << 16)
    low = ops.greater_equal(ops.left_shift(words, np.uint32(16)), least)
    return low, ops.greater_equal(words, least)


def _mixed(words: Tensor) -> Tensor:
    """Return fmix32 of uint32 words."""
    for shift, factor in zip(_SHIFTS, (*_FACTORS, None), strict=True):
        words = ops.bitwise_xor(words, ops.right_shift(words, shift))
        if factor is not None:
            words = ops.multiply(words, factor)
    return words
