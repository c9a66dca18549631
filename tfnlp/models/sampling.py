"""Choice of the next token from its logits."""

from keras import ops

from tfnlp.layers.types import Tensor

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def greedy(logits: Tensor) -> Tensor:
    """Return the most probable token: float32 `[B, V]` to int32 `[B]`."""
    return ops.cast(ops.argmax(logits, axis=-1), "int32")


def sample(
    logits: Tensor,
    seeds: Tensor,
    step: Tensor,
    temperature: float | Tensor = 1.0,
    top_k: int | Tensor = 0,
    top_p: float | Tensor = 1.0,
) -> Tensor:
    """Return a token drawn from the largest values of `softmax(logits / temperature)`.

    `top_k` keeps the k most probable tokens (Fan et al. 2018, section 5.4), `top_p` the fewest that
    together have that probability among those kept so far (Holtzman et al. 2020, section 3.1).
    Then the token is `min {v: sum_{w <= v} p_w > u sum_w p_w}`, with tokens in the order of their
    ids, or, where some are left out, of their probabilities. u is one uniform number for each row,
    which depends on the row's seed and on `step` alone: a row draws the same in any batch.

    Args:
        logits: float32 `[B, V]`.
        seeds: int32 `[B]`.
        step: int scalar, number of tokens drawn before.
        temperature: above 0; a float or a float32 scalar.
        top_k: from 0 (all) to V; an int, or, where shapes may be dynamic, an int32 scalar.
        top_p: above 0, at most 1 (all); a float or a float32 scalar.

    Returns:
        int32 `[B]`.
    """
    # With the maximum at 0 and no division by 0, any temperature gives probabilities, not NaN.
    logits = logits - ops.max(logits, axis=-1, keepdims=True)
    logits = logits / ops.maximum(ops.cast(temperature, logits.dtype), 1e-30)
    u = uniform(seeds, step)[:, None]  # [B, 1]
    size = logits.shape[-1]
    if isinstance(top_k, int) and isinstance(top_p, float | int):
        k = min(top_k or size, size)
        if k == size and top_p >= 1:
            return _draw(ops.softmax(logits, axis=-1), u)
        return greedy(logits) if k == 1 else _from_largest(logits, u, k, top_p)
    # Sorting is slow, and needed only if one of the limits applies.
    k = ops.where(top_k > 0, ops.minimum(top_k, size), size)
    return ops.cond(
        ops.logical_and(k == size, top_p >= 1),
        lambda: _draw(ops.softmax(logits, axis=-1), u),
        lambda: _from_largest(logits, u, k, top_p),
    )


def _from_largest(logits: Tensor, u: Tensor, top_k: int | Tensor, top_p: float | Tensor) -> Tensor:
    kept, tokens = ops.top_k(logits, top_k)  # [B, K], the largest first
    p = ops.softmax(kept, axis=-1)
    before = ops.cumsum(p, axis=-1) - p
    p = ops.where(before < top_p, p, ops.zeros_like(p))
    place = _draw(p, u)[:, None]  # [B, 1]
    return ops.cast(ops.take_along_axis(tokens, place, axis=1)[:, 0], "int32")


def _draw(p: Tensor, u: Tensor) -> Tensor:
    """Return `min {v: sum_{w <= v} p_w > u sum_w p_w}` of `p` `[B, V]`, `u` `[B, 1]`: int32 `[B]`.

    Cumulated sums computed in parallel may fall because of rounding. Sums where p is 0 are left
    out, so that a token of probability 0 is never drawn.
    """
    sums = ops.where(p > 0, ops.cumsum(p, axis=-1), ops.zeros_like(p))
    above = sums > u * ops.max(sums, axis=-1, keepdims=True)
    return ops.cast(ops.argmax(ops.cast(above, "int32"), axis=-1), "int32")


def uniform(seeds: Tensor, step: Tensor) -> Tensor:
    """Return a number in [0, 1) for each seed, 24 bits of `threefry((seed, 0), (step, 0))`.

    Seeds are int32 `[B]`, the step an int scalar, the numbers float32 `[B]`.
    """
    seeds = ops.cast(seeds, "uint32")
    zeros = ops.zeros_like(seeds)
    bits, _ = threefry((seeds, zeros), (zeros + ops.cast(step, "uint32"), zeros))
    return ops.cast(ops.right_shift(bits, ops.cast(8, "uint32")), "float32") * 2.0**-24


def threefry(key: tuple[Tensor, Tensor], counter: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return Threefry-2x32 with 20 rounds of a counter (Salmon et al. 2011).

    For every key it is a bijection of the counter. All three are two uint32 tensors of one shape.
    """

    def number(value: int) -> Tensor:
        return ops.cast(value, "uint32")

    a, b = key
    keys = (a, b, ops.bitwise_xor(ops.bitwise_xor(a, b), number(0x1BD11BDA)))
    x, y = counter[0] + a, counter[1] + b
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            x = x + y
            left = ops.left_shift(y, number(rotation))
            y = ops.bitwise_or(left, ops.right_shift(y, number(32 - rotation)))
            y = ops.bitwise_xor(y, x)
        x = x + keys[(block + 1) % 3]
        y = y + keys[(block + 2) % 3] + number(block + 1)
    return x, y
