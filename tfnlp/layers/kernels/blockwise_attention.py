"""Attention in blocks, so that scores and probabilities never lie in memory as a whole.

The scores of all heads `[B, N, T, S]` are the largest array of a Transformer: 400 MB a layer for 32
rows of 512 tokens and 12 heads. Here a loop computes those of some rows, or of some queries of a
row, at a time, and the gradient computes them again from the queries and the keys. What lies in
memory grows linearly with T and S.

With `p = softmax(q k^T / sqrt(D) + bias)`, m the dropout mask divided by the share that is kept,
and `o = (p m) v`: `dv = (p m)^T do`; `ds = p (dp - sum_j p_j dp_j)` with `dp = (do v^T) m`;
`dq = ds k / sqrt(D)`; `dk = ds^T q / sqrt(D)`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.layers.dropout import hashed_mask
from tfnlp.layers.kernels.attention import Drops, Visible, bias
from tfnlp.layers.kernels.backend import by_target, entries, forms, padded, with_gradient
from tfnlp.layers.kernels.products import product

_WRITTEN_OUT = 8  # query blocks of a row without a loop; with `causal` they skip later keys
# Axis of the queries in what is cut by them.
_QUERY_AXIS = {"sequences": 1, "rows": 2, "q": 2, "d_output": 2}

Named = dict[str, Tensor]


@dataclasses.dataclass(frozen=True)
class Blocks:
    """How attention is cut: `rows` of the batch a turn, and of these `queries` at a time."""

    rows: int
    queries: int


def blocks_of(batch: int | None, heads: int, length: int, source: int, most: int) -> Blocks:
    """Return blocks of at most `most` scores, or of 8 queries where these have more.

    There are `length` queries and `source` keys.
    """
    a_row = heads * length * source
    if a_row <= most:
        fitting = min(most // a_row, batch or 1)
        return Blocks(max(n for n in range(1, fitting + 1) if (batch or 1) % n == 0), length)
    queries = -(-length * most // a_row)
    return Blocks(1, min(length, max(1, queries // 8) * 8))


def blockwise_attention(
    q: Tensor, k: Tensor, v: Tensor, visible: Visible, drops: Drops | None, blocks: Blocks
) -> Tensor:
    """Return the first output of `plain_attention` as `[B, N, D, T]`, with a gradient.

    Positions are the last axis everywhere: so a TPU moves nothing between the projections and here.
    All but B is static; of the blocks `rows` divides B.
    """
    rows, columns = (None, None) if drops is None else (drops.rows, drops.columns)
    arrays = {"mask": visible.mask, "sequences": visible.sequences}
    arrays = {**arrays, "rows": rows, "columns": columns}
    given = {name: x for name, x in arrays.items() if x is not None}

    # Every array is an argument: in a branch that JAX traces for one platform, a gradient can't
    # use arrays from outside.
    @with_gradient
    def attended(
        q: Tensor, k: Tensor, v: Tensor, *others: Tensor
    ) -> tuple[Tensor, Callable[..., Any]]:
        inside = {"q": q, "k": k, "v": v, **dict(zip(given, others, strict=True))}
        turns = _Turns(inside, visible.causal, drops, blocks)
        (output,) = turns.over_rows(turns.forward, ("q",))

        def gradient(d_output: Tensor) -> tuple[Tensor | None, ...]:
            found = turns.over_rows(turns.backward, ("q", "k", "v"), d_output=d_output)
            return *found, *[None for _ in others]

        return output, gradient

    return attended(q, k, v, *given.values())


class _Turns:
    """The turns over the rows of a batch, forwards and backwards; `R` rows a turn.

    The arrays are `q`, `k`, `v`, and where there are any `mask`, `sequences`, and `rows` and
    `columns` of the drops, whose own are not used.
    """

    def __init__(self, arrays: Named, causal: bool, drops: Drops | None, blocks: Blocks) -> None:
        self.arrays, self.causal, self.drops, self.blocks = dict(arrays), causal, drops, blocks
        self.columns = self.arrays.pop("columns", None)
        q = arrays["q"]
        self.heads, self.head_size, self.length = q.shape[1:]
        self.source, self.dtype, self.scale = arrays["k"].shape[-1], q.dtype, self.head_size**-0.5

    def over_rows(
        self, function: Callable[[Named], tuple], like: tuple[str, ...], **more: Tensor
    ) -> tuple[Tensor, ...]:
        """Return the outputs of `function` for all rows, computed in turns.

        `like` names for each output an array that has its shape and dtype, `more` are arrays
        besides those of the call.
        """
        arrays, rows = _in_order({**self.arrays, **more}), self.blocks.rows
        if arrays["q"].shape[0] == rows:
            return function(arrays)

        def filled(arrays: Named) -> tuple[Tensor, ...]:
            def turn(at: Tensor, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
                found = function({name: entries(x, at * rows, rows) for name, x in arrays.items()})
                pairs = zip(outputs, found, strict=True)
                return tuple(ops.slice_update(y, (at * rows, 0, 0, 0), x) for y, x in pairs)

            start = tuple(forms.empty_like(arrays[name]) for name in like)
            return tuple(ops.fori_loop(0, arrays["q"].shape[0] // rows, turn, start))

        def mapped(arrays: Named) -> tuple[Tensor, ...]:
            cut = {name: ops.reshape(x, (-1, rows, *x.shape[1:])) for name, x in arrays.items()}
            return tuple(ops.reshape(x, (-1, *x.shape[2:])) for x in ops.map(function, cut))

        # `ops.map` fills its results with zeros first.
        if keras.backend.backend() == "jax":
            return filled(arrays)
        return by_target(filled, mapped, arrays)

    def forward(self, x: Named) -> tuple[Tensor]:
        """Return the output `[R, N, D, T]`."""

        def block(carry: tuple, first: Tensor, keys: int, x: Named) -> tuple[tuple, tuple]:
            p, m = self._probabilities(x, keys, first)
            p = ops.cast(p, self.dtype)
            return carry, (product(x["v"][..., :keys], _swapped(p if m is None else p * m)),)

        return self._apart(*self._over_queries(block, (), self._joined(x))[1])

    def backward(self, x: Named) -> tuple[Tensor, ...]:
        """Return the gradients of q, k and v."""

        def block(carry: tuple, first: Tensor, keys: int, x: Named) -> tuple[tuple, tuple]:
            d_o, k, v = x["d_output"], x["k"][..., :keys], x["v"][..., :keys]
            p, m = self._probabilities(x, keys, first)
            d_p = product(_swapped(d_o), v)  # [RN, t, keys]
            dropped = p = ops.cast(p, self.dtype)
            if m is not None:
                d_p, dropped = d_p * m, dropped * m
            p, d_p = ops.cast(p, "float32"), ops.cast(d_p, "float32")
            d_s = ops.cast(p * (d_p - ops.sum(p * d_p, -1, keepdims=True)), self.dtype)
            found = product(x["q"] * self.scale, d_s), product(d_o, dropped)  # [RN, D, keys]
            if carry:
                found = tuple(_added(*pair) for pair in zip(carry, found, strict=True))
            return found, (product(k, _swapped(d_s)) * self.scale,)

        x = self._joined(x)
        whole = self.blocks.queries >= self.length
        start = () if whole else tuple(ops.zeros_like(x[name], "float32") for name in "kv")
        (d_k, d_v), (d_q,) = self._over_queries(block, start, x)
        return self._apart(d_q, d_k, d_v)

    def _joined(self, x: Named) -> Named:
        """Return x with the rows and heads of `[R, N, D, T]` as one axis.

        With an axis of size 1 a TPU's compiler does not make the softmax a part of the product.
        """
        flat = {name: x[name] for name in ("q", "k", "v", "d_output") if name in x}
        return {**x, **{n: ops.reshape(y, (-1, *y.shape[2:])) for n, y in flat.items()}}

    def _apart(self, *flat: Tensor) -> tuple[Tensor, ...]:
        """Return `[RN, D, T]` as `[R, N, D, T]`, in the dtype of q."""
        shape = (-1, self.heads, self.head_size)
        return tuple(ops.reshape(ops.cast(x, self.dtype), (*shape, x.shape[-1])) for x in flat)

    def _probabilities(self, x: Named, keys: int, first: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the softmax of a block, float32 `[RN, t, keys]`, and m or None."""
        queries = x["q"].shape[-1]
        last = ops.arange(queries, dtype="int32")[:, None] + first if self.causal else None
        pair = (x["sequences"], x["of_keys"]) if "sequences" in x else None
        scores = product(_swapped(x["q"] * self.scale), x["k"][..., :keys])
        scores, hidden = ops.cast(scores, "float32"), bias(keys, x.get("mask"), last, pair)
        if hidden is not None:
            scores = scores + hidden[0] if hidden.shape[0] == 1 else self._masked(scores, hidden)
        p = _softmax(scores)
        if self.drops is None:
            return p, None
        # On a TPU the mask becomes a part of what reads it, if no word is shared by two heads.
        kept = by_target(
            functools.partial(self._kept, halves=False), self._kept, x["rows"], self.columns[:keys]
        )
        return p, ops.reshape(ops.cast(kept, self.dtype), p.shape) * self.drops.scale

    def _kept(self, rows: Tensor, columns: Tensor, halves: bool = True) -> Tensor:
        return hashed_mask(rows[..., None], columns, self.heads, self.drops.dropped, halves)

    def _masked(self, scores: Tensor, hidden: Tensor) -> Tensor:
        """Return the sum of `[RN, t, keys]` and `[R, 1, t or 1, keys]`."""
        by_row = ops.reshape(scores, (-1, self.heads, *scores.shape[1:]))
        return ops.reshape(by_row + hidden, scores.shape)

    def _over_queries(self, block: Callable, carry: tuple, arrays: Named) -> tuple[tuple, tuple]:
        """Apply `block(carry, first, keys, arrays)` to some queries at a time.

        The last carry is returned, and the outputs of all queries joined along the last axis.
        """
        if "sequences" in arrays:
            arrays = {**arrays, "of_keys": arrays["sequences"]}
        size = self.blocks.queries
        if size >= self.length:
            return block(carry, 0, self.source, arrays)
        cut = {name: x for name, x in arrays.items() if name in _QUERY_AXIS}
        shared = {name: x for name, x in arrays.items() if name not in cut}
        count = -(-self.length // size)
        if count <= _WRITTEN_OUT:
            outputs = []
            for first in range(0, self.length, size):
                end = min(first + size, self.length)
                keys = min(end, self.source) if self.causal else self.source
                some = {n: _part(x, first, end, _QUERY_AXIS[n]) for n, x in cut.items()}
                carry, found = block(carry, first, keys, {**shared, **some})
                outputs.append(found)
            return carry, tuple(ops.concatenate(x, -1) for x in zip(*outputs, strict=True))
        cut = {name: padded(x, count * size, _QUERY_AXIS[name]) for name, x in cut.items()}
        return self._loop(block, carry, count, cut, shared)

    def _loop(
        self, block: Callable, carry: tuple, count: int, cut: Named, shared: Named
    ) -> tuple[tuple, tuple]:
        """Return what `_over_queries` does, by a loop of `count` turns."""
        size = self.blocks.queries

        def some(at: Tensor) -> Named:
            here = {n: entries(x, at * size, size, _QUERY_AXIS[n]) for n, x in cut.items()}
            return {**shared, **here}

        def turn(at: Tensor, state: tuple) -> tuple:
            here = some(at)
            here = _in_order({**here, "q": _after(here["q"], state[1][0])})
            carry, outputs = block(state[0], at * size, self.source, here)
            pairs = zip(state[1], outputs, strict=True)
            return carry, tuple(ops.slice_update(total, (0, 0, at * size), x) for total, x in pairs)

        # The first block says which outputs there are.
        carry, first = block(carry, 0, self.source, some(0))
        outputs = tuple(padded(x, count * size, 2) for x in first)
        carry, outputs = ops.fori_loop(1, count, turn, (carry, outputs))
        return carry, tuple(x[..., : self.length] for x in outputs)


def _in_order(arrays: Named) -> Named:
    """Return the same numbers: queries wait for the upstream gradient, draws for the queries.

    TensorFlow computes what it can as early as it can: otherwise the masks of all layers, which
    depend on the draws alone, and the probabilities that gradients compute again would lie in
    memory at once.
    """
    if "d_output" in arrays:
        arrays = {**arrays, "q": _after(arrays["q"], arrays["d_output"])}
    if "rows" in arrays:
        arrays = {**arrays, "rows": _after(arrays["rows"], arrays["q"])}
    return arrays


def _after(x: Tensor, other: Tensor) -> Tensor:
    """Return x, in TensorFlow computed when `other` has been."""
    if keras.backend.backend() != "tensorflow":
        return x

    def elsewhere(x: Tensor) -> Tensor:
        first = other[(0,) * len(other.shape)]
        return x + ops.cast(ops.greater(first, float("inf")), x.dtype)  # 0

    return by_target(lambda x: x, elsewhere, x)


def _softmax(x: Tensor) -> Tensor:
    return forms.softmax(x) if keras.backend.backend() == "jax" else ops.softmax(x, -1)


def _part(x: Tensor, first: int, end: int, axis: int) -> Tensor:
    return x[(slice(None),) * axis + (slice(first, end),)]


def _swapped(x: Tensor) -> Tensor:
    return ops.swapaxes(x, -1, -2)


def _added(total: Tensor, new: Tensor) -> Tensor:
    """Return float32 `total` `[RN, D, S]` with `new`, of the first keys, added."""
    keys = new.shape[-1]
    added = total[..., :keys] + ops.cast(new, "float32")
    return added if keys == total.shape[-1] else ops.concatenate([added, total[..., keys:]], -1)
