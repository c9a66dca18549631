"""Dropout with a mask that is cheap to draw: it costs a tenth of a Philox number an element.

Word `(i, j)` of a table is `mix(a_i xor b_j)`, where a and b are Philox draws and `mix` is a
bijection of 32 bits. Each half of a word decides about one element of the mask. Every element is
uniform and every two elements of different words are independent; beyond that the quality rests
on the mixing.
"""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from tfnlp.layers.base import Layer, Tensor
from tfnlp.layers.kernels.backend import by_target

_COLUMNS = 512  # 32-bit words in a row of the table where the width of the mask makes a bad one
_WIDTHS = 64, 4096  # others take too many draws
# The finalizer of MurmurHash3: a bijection of 32 bits in which each bit depends on all.
_SHIFTS, _FACTORS = (16, 13, 16), np.array([0x85EBCA6B, 0xC2B2AE35], "uint32")


@keras.saving.register_keras_serializable(package="tfnlp")
class Dropout(Layer):
    """`y = x m / (1 - rate)`, `m` 0 with probability `rate`, else 1 (Srivastava et al. 2014).

    `rate` is rounded to a multiple of 1/65536 and `1 - rate` with it, so that `E[y] = x` exactly.
    The mask is a hash of few draws, which come from a `keras.random.SeedGenerator`, as in
    `keras.layers.Dropout`.

    Args:
        rate: probability of 0, at least 0 and below 1.
        seed: of the seed generator.

    Call: any shape and float dtype to the same; the identity unless `training`.

    Raises:
        ValueError: for a rate outside [0, 1).
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError(f"rate={rate} must be at least 0 and below 1")
        self.rate = rate
        self.dropped = round(rate * 65536)  # of 65536 equally likely numbers of an element
        self.seed = seed
        self.supports_masking = True
        self.built = True
        if rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        dropped = self.dropped
        if not training or dropped == 0:
            return inputs
        shape = inputs.shape
        count = ops.size(inputs) if None in shape else math.prod(shape)
        width = shape[-1] if len(shape) > 1 else None
        kept = dropout_mask(count, width, dropped, self.seed_generator)
        # A product with the mask is cheaper than a selection, in both directions.
        mask = ops.cast(ops.reshape(kept, ops.shape(inputs)), inputs.dtype)
        return inputs * (mask * (65536 / (65536 - dropped)))


def dropout_mask(
    count: Tensor, width: int | None, dropped: int, seed: keras.random.SeedGenerator
) -> Tensor:
    """Return whether each of `count` random 16-bit numbers is at least `dropped`.

    `width` is the size of the last axis of what is dropped out, if it is known; `seed` advances by
    one draw. The mask is bool `[count / width, width]`, or `[count]` if `width` makes a bad table.
    """
    if width is None or not _WIDTHS[0] <= width <= _WIDTHS[1]:
        rows = (count + (2 * _COLUMNS - 1)) // (2 * _COLUMNS)
        return ops.reshape(_table(rows, 2 * _COLUMNS, dropped, seed), (-1,))[:count]
    return _table(count // width, width, dropped, seed)


def _table(rows: Tensor, width: int, dropped: int, seed: keras.random.SeedGenerator) -> Tensor:
    """Return a random mask, bool `[rows, width]`."""
    columns = -(-width // 2)
    draws = keras.random.randint((columns + rows,), -(2**31), 2**31 - 1, dtype="int32", seed=seed)

    def mask(draws: Tensor, halves: bool = True) -> Tensor:
        return hashed_mask(draws[None, :columns], draws[columns:, None], width, dropped, halves)

    return by_target(lambda draws: mask(draws, halves=False), mask, draws)


def hashed_mask(a: Tensor, b: Tensor, count: int, dropped: int, halves: bool = True) -> Tensor:
    """Return the mask that the halves of the words `mix(a xor b)` decide, by 32-bit integers only.

    The constants are numpy's: beside a Python number Keras would convert the words to 64 bits.

    Args:
        a, b: int32 draws; of the axis 1 a has `ceil(count / 2)`, b one or none.
        count: size of axis 1 of the mask: the low halves of all words, then the high ones. To
            alternate them, as they lie in a CPU's memory, a TPU would rearrange the whole mask.
        dropped: from 0 to 65535; an element is False with probability `dropped / 65536`.
        halves: compute each word once; otherwise for each of its two elements, which a compiler
            can make part of what reads the mask.
    """
    a, b, least = ops.cast(a, "uint32"), ops.cast(b, "uint32"), np.uint32(dropped << 16)
    if halves:
        words = _mixed(ops.bitwise_xor(a, b))
        low = ops.greater_equal(ops.left_shift(words, np.uint32(16)), least)
        high = ops.greater_equal(words, least)
        return ops.concatenate([low, high[:, : count // 2]], 1)
    is_low = np.arange(count) < a.shape[1]
    shift = np.where(is_low, np.uint32(16), np.uint32(0)).astype("uint32")
    shift = shift.reshape(-1, *[1] * (len(a.shape) - 2))
    words = _mixed(ops.bitwise_xor(ops.concatenate([a, a[:, : count // 2]], 1), b))
    return ops.greater_equal(ops.left_shift(words, shift), least)


def _mixed(words: Tensor) -> Tensor:
    """Return fmix32 of uint32 words."""
    for shift, factor in zip(_SHIFTS, (*_FACTORS, None), strict=True):
        words = ops.bitwise_xor(words, ops.right_shift(words, shift))
        if factor is not None:
            words = ops.multiply(words, factor)
    return words
