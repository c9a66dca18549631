"""The checksum of TensorFlow's checkpoints, CRC-32C (Castagnoli), in numpy.

A checksum is a remainder of polynomials over two elements, so it is linear: that of two parts one
behind the other is `advance(first, length of second) ^ second`. So the bytes are cut into lanes,
all of which go through the table side by side.
"""

import functools

import numpy as np

_POLYNOMIAL = 0x82F63B78  # bits reversed
_MOST_LANES = 1 << 13
_BITS = np.arange(32, dtype=np.uint32)


def masked_crc32c(data):
    """The checksum of uint8 `[N]` in the form in which it is stored (core/lib/hash/crc32c.h)."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data):
    """The checksum of uint8 `[N]`."""
    data = np.asarray(data, np.uint8)
    count = -(-data.size // 4)  # 32-bit words
    lanes = min(_MOST_LANES, 1 << count.bit_length() // 2)
    length = -(-count // lanes)
    # Zeros in front change nothing where the remainder starts from zero.
    words = np.zeros(lanes * length, "<u4")
    words.view(np.uint8)[words.nbytes - data.size :] = data
    low, high = _tables()
    state = np.zeros(lanes, np.uint32)
    for column in words.reshape(lanes, length).T:
        state ^= column
        state = low[state & 0xFFFF] ^ high[state >> 16]
    step = _advance(4 * length)
    while state.size > 1:
        state = _apply(step, state[::2]) ^ state[1::2]
        step = _apply(step, step)
    # The checksum starts from ones instead, which have come all the way.
    ones = _apply(_advance(data.size), np.array([0xFFFFFFFF], np.uint32))
    return int(state[0] ^ ones[0]) ^ 0xFFFFFFFF


def _apply(matrix, vectors):
    """`matrix` `[32]`, the images of the 32 bits, times uint32 `[N]`."""
    return np.bitwise_xor.reduce(((vectors[:, None] >> _BITS) & 1) * matrix, axis=1)


def _advance(count):
    """The matrix that takes a remainder past `count` bytes of zeros, by squaring."""
    result = np.uint32(1) << _BITS
    step = _past_bits(result, 8)
    while count:
        if count & 1:
            result = _apply(step, result)
        step = _apply(step, step)
        count >>= 1
    return result


def _past_bits(remainders, count):
    for _ in range(count):
        remainders = (remainders >> 1) ^ np.uint32(_POLYNOMIAL) * (remainders & 1)
    return remainders


@functools.cache
def _tables():
    """What the lower and the upper half of a word become past its 32 bits."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    return _past_bits(halves, 32), _past_bits(halves << 16, 32)
