"""Attention by its formula: which scores count, and which probabilities are dropped."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.layers.dropout import hashed_mask
from tfnlp.layers.kernels.products import product

MASKED = -1e9  # a masked score: its exp() is 0 in float32, and no row becomes NaN


@dataclasses.dataclass(frozen=True)
class Visible:
    """Which keys a query attends to."""

    mask: Tensor | None = None  # bool `[B, S]`, True for real keys
    sequences: Tensor | None = None  # int `[B, T]`, T = S: keys of the same number only
    causal: bool = False  # query t attends to keys <= t only

    def bias(self, queries: int | Tensor, keys: int | Tensor, start: Any = None) -> Tensor | None:
        """Return the `bias` of so many queries and keys.

        Where the keys are a cache's, `start` is the number of the first query; keys that are not
        yet written are hidden, too.
        """
        last, pair = None, None if self.sequences is None else (self.sequences,) * 2
        if self.causal:
            last = ops.arange(queries, dtype="int32")[:, None] + (0 if start is None else start)
        elif start is not None:
            last = ops.reshape(start + queries - 1, (1, 1))
        return bias(keys, self.mask, last, pair)


@dataclasses.dataclass(frozen=True)
class Drops:
    """Dropout of the probabilities, decided by `tfnlp.layers.dropout.hashed_mask`.

    The heads n and n + ceil(N / 2) take the two halves of the same random words.
    """

    rows: Tensor  # int32 `[B, ceil(N / 2), T]`, random
    columns: Tensor  # int32 `[S]`, random
    dropped: int  # from 1 to 65535; a probability becomes 0 with probability `dropped / 65536`

    @property
    def scale(self) -> float:
        """What the probabilities that are kept are multiplied by."""
        return 65536 / (65536 - self.dropped)


def draw(
    batch: Tensor,
    heads: int,
    queries: Tensor,
    keys: Tensor,
    dropped: int,
    seed: keras.random.SeedGenerator,
) -> Drops:
    """Return the drops of a call; `seed` advances by one draw."""
    pairs = -(-heads // 2)
    count = batch * pairs * queries + keys
    draws = keras.random.randint((count,), -(2**31), 2**31 - 1, dtype="int32", seed=seed)
    return Drops(ops.reshape(draws[keys:], (-1, pairs, queries)), draws[:keys], dropped)


def bias(
    keys: Tensor,
    mask: Tensor | None = None,
    last: Tensor | None = None,
    sequences: tuple[Tensor, Tensor] | None = None,
) -> Tensor | None:
    """Return 0 where a score counts and MASKED where it does not; None if all count.

    Of so many keys, from the first one, a query sees those that the mask `[B, S]` has, up to
    `last`, int `[T or 1, 1]`, and of its own number: `sequences`, int `[B, T]` and `[B, S]`. The
    result is float32 `[B or 1, 1, T or 1, keys]`.
    """
    hidden = []  # where a score does not count
    if mask is not None:
        hidden.append(ops.logical_not(ops.cast(mask[:, None, None, :keys], "bool")))
    if last is not None:
        hidden.append(ops.greater(ops.arange(keys, dtype="int32"), last)[None, None])
    if sequences is not None:
        of_queries, of_keys = sequences
        hidden.append(ops.not_equal(of_queries[:, None, :, None], of_keys[:, None, None, :keys]))
    if not hidden:
        return None
    return functools.reduce(ops.maximum, [ops.cast(x, "float32") for x in hidden]) * MASKED


def plain_attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, drops: Drops | None
) -> tuple[Tensor, Tensor]:
    """Return `(softmax(q k^T / sqrt(D) + bias) m) v`, m the dropout mask, and the softmax.

    Of `[B, N, T, D]` and `[B, N, S, D]` they are `[B, N, T, D]` in the dtype of q, and float32
    `[B, N, T, S]`, to which the float32 bias is broadcast.
    """
    scores = product(q * (q.shape[-1] ** -0.5), ops.swapaxes(k, -1, -2))
    scores = ops.cast(scores, "float32")
    probabilities = ops.softmax(scores if bias is None else scores + bias, axis=-1)
    narrow = ops.cast(probabilities, q.dtype)
    if drops is not None:
        kept = hashed_mask(drops.rows[..., None], drops.columns, q.shape[1], drops.dropped)
        # A product with the mask is cheaper than a selection, in both directions.
        narrow = narrow * (ops.cast(kept, q.dtype) * drops.scale)
    return product(narrow, v), probabilities
