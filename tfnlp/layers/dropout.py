"""Dropout with a mask that costs a tenth of a Philox number an element."""

import math

import keras
import numpy as np
from keras import ops

_COLUMNS = 512  # 32-bit words a row of the table that a mask is cut from
# The finalizer of MurmurHash3: a bijection of 32 bits in which each bit depends on all.
_SHIFTS, _FACTORS = (16, 13, 16), np.array([0x85EBCA6B, 0xC2B2AE35], "uint32")


@keras.saving.register_keras_serializable(package="tfnlp")
class Dropout(keras.layers.Layer):
    """`y = x m / (1 - rate)`, `m` 0 with probability `rate`, else 1 (Srivastava et al. 2014).

    `rate` is rounded to a multiple of 1/65536 and `1 - rate` with it, so that `E[y] = x` exactly.

    Drawing a Philox number an element takes longer than the rest of a block's elementwise work.
    Here word `(i, j)` of a table is `mix(a_i xor b_j)` with Philox draws a and b and a mixing
    bijection of 32 bits, and every half of a word makes one element of the mask. Every element
    is uniform and every two of different words are independent; beyond that it rests on the
    mixing.
    The randomness comes from a `keras.random.SeedGenerator`, as in `keras.layers.Dropout`.

    Args:
        rate: probability of 0, at least 0 and below 1.
        seed: of the seed generator.

    Shapes: any to the same; dtype: any float to the same.
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError(f"rate={rate} must be at least 0 and below 1")
        self.rate = rate
        self.seed = seed
        self.supports_masking = True
        self.built = True
        if rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, inputs, training=False):
        dropped = round(self.rate * 65536)
        if not training or dropped == 0:
            return inputs
        shape = inputs.shape
        count = ops.size(inputs) if None in shape else math.prod(shape)
        kept = _kept(count, dropped, self.seed_generator)
        # A product with the mask is cheaper than a selection, in both directions.
        mask = ops.cast(ops.reshape(kept, ops.shape(inputs)), inputs.dtype)
        return inputs * (mask * (65536 / (65536 - dropped)))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


def _kept(count, dropped, seed):
    """Whether a random 16-bit number is `dropped` or above: booleans `[count]`."""
    rows = (count + (2 * _COLUMNS - 1)) // (2 * _COLUMNS)
    draws = keras.random.randint((_COLUMNS + rows,), -(2**31), 2**31 - 1, dtype="int32", seed=seed)
    draws = ops.cast(draws, "uint32")
    words = ops.bitwise_xor(draws[_COLUMNS:, None], draws[None, :_COLUMNS])  # [rows, columns]
    for shift, factor in zip(_SHIFTS, (*_FACTORS, None), strict=True):
        words = ops.bitwise_xor(words, ops.right_shift(words, shift))
        if factor is not None:
            words = ops.multiply(words, factor)
    # Low halves first, then the high ones: to have them turn by turn, as they lie in a CPU's
    # memory, a TPU would rearrange the whole mask three times. Everything is of 32 bits: beside
    # a Python number Keras would make 64-bit ones of the words.
    least = np.uint32(dropped << 16)
    low = ops.greater_equal(ops.left_shift(words, np.uint32(16)), least)
    high = ops.greater_equal(words, least)
    halves = ops.reshape(ops.concatenate([low, high], -1), (-1,))  # [rows * 2 columns]
    return halves[:count]
