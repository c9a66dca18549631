"""Attention on a GPU as one kernel a direction, with dropout of the probabilities inside.

    s = q k^T / sqrt(D),  p = softmax(s) over the visible keys,  o = (p m) v

m is the dropout mask of `tfnlp.layers.dropout`, drawn from the same words as in the plain formula,
so that all forms drop the same probabilities. Scores lie in registers a block at a time (Dao et
al. 2022), and what is kept for the gradient is o and the logarithm of the softmax's divisor:
memory grows linearly with T and S. Backwards, one kernel goes over the queries for each
block of keys, another over the keys for each block of queries; nothing is added atomically, so
that equal inputs give equal bits.

With `d_p = (d_o v^T) m` and `d_s = p (d_p - sum_j d_o_j o_j)`: `d_v = (p m)^T d_o`,
`d_q = d_s k / sqrt(D)`, `d_k = d_s^T q / sqrt(D)`.

On an H200, 32 rows of 512, 12 heads of 64 take 475 us with dropout and 400 without, where cuDNN's
take 457 without. cuDNN's dropout has its seed in the program and counts its own calls: a run that
was killed would go on with other masks.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.experimental import pallas as pl

try:
    from jax.experimental.pallas import triton
except ImportError:  # a newer JAX: Pallas's compiler by Triton is to be replaced, says 0.11
    triton = None

from tfnlp.layers.kernels.attention import Drops, Visible

Arrays = tuple[jax.Array, ...]
Named = dict[str, Any]  # arrays, or in a kernel references to them

# A masked product `q . k`: no power of its exponent counts, and to that a divisor can be added.
_MASKED = -(2.0**20)
_FACTORS = np.array([0x85EBCA6B, 0xC2B2AE35], "uint32")  # see `hashed_mask`
_SMALLEST = 16  # sides of the smallest product in a kernel
_LARGEST = 128  # numbers of a head that fit into the registers


def fits(size: int, dtype: str) -> bool:
    """Return whether the kernels take heads of `size` numbers on JAX's first device."""
    if triton is None or dtype not in ("bfloat16", "float16") or size > _LARGEST:
        return False
    if jax.default_backend() != "gpu":
        return False
    # 9.0 of an H100; before 8.0 the memory beside a processor is too small.
    return float(getattr(jax.devices()[0], "compute_capability", 0)) >= 8


@dataclasses.dataclass(frozen=True)
class Tiles:
    """How a kernel is cut: `own` positions a program, `turn` positions of the others at a time."""

    own: int
    turn: int
    stages: int


# By time on an H200 for up to 64 numbers a head, with dropout; all have 4 warps.
FORWARD, KEYS, QUERIES = Tiles(128, 64, 3), Tiles(64, 64, 3), Tiles(64, 64, 3)
_OF_WIDE = Tiles(64, 32, 2)  # for up to 128


@dataclasses.dataclass(frozen=True)
class _Form:
    """What a kernel is compiled for."""

    parts: tuple[tuple[int, int], ...]  # of q, k and v: the array, the index of its third axis
    scale: float  # of the scores, `1 / sqrt(D)`
    base_2: float  # makes of a product `q . k` the exponent of a power of 2
    causal: bool
    dropped: int  # see `Drops`; 0 for none
    kept_scale: float  # what the probabilities that are kept are multiplied by
    interpret: bool  # run the kernels in Python, on any device


def fused_attention(
    arrays: Arrays, visible: Visible, drops: Drops | None = None, interpret: bool = False
) -> jax.Array:
    """Return `[B, T, N, D]`, the first output of `plain_attention` up to rounding.

    A query that sees no key at all has some finite output here.

    Args:
        arrays: queries, keys and values as one array `[B, T, 3, N, D]`, or queries
            `[B, T, 1, N, D]` beside keys and values `[B, S, 2, N, D]`. D is at most 128.
        visible: a `Visible`. Keys after the last real one take no time.
        drops: a `Drops`, or None.
        interpret: run the kernels in Python, on any device.
    """
    mask, causal = visible.mask, visible.causal
    of_keys = len(arrays) - 1
    length, source, size = arrays[0].shape[1], arrays[of_keys].shape[1], arrays[0].shape[-1]
    padded = [_padded_length(n) for n in (length, source)]
    wide = max(_SMALLEST, pl.next_power_of_2(size))
    parts = ((0, 0), (0, 1), (0, 2)) if of_keys == 0 else ((0, 0), (1, 0), (1, 1))
    dropping = (0, 1.0) if drops is None else (drops.dropped, drops.scale)
    form = _Form(parts, size**-0.5, size**-0.5 * math.log2(math.e), causal, *dropping, interpret)
    if mask is None and padded[1] != source and not causal:
        mask = jnp.ones((arrays[0].shape[0], source), "int32")
    arrays = tuple(_padded(x, {1: padded[i], 4: wide}) for i, x in enumerate(arrays))
    others = {}
    if drops is not None:
        others["rows"] = _padded(drops.rows, {2: padded[0]})
        others["columns"] = _padded(drops.columns, {0: padded[1]})
        # Which bits of a word's other half a head's decision takes; read from memory, because a
        # compiler that knew them would make selections of them.
        others["halves"] = jnp.asarray([-1, 0], "int32")
    if mask is not None:
        mask = _padded(mask.astype("int32"), {1: padded[1]})
        numbers = jnp.arange(1, padded[1] + 1, dtype="int32")
        ends = jnp.maximum(jnp.max(jnp.where(mask != 0, numbers, 0), 1), 1)
        others.update(mask=mask, ends=ends)
    if visible.sequences is not None:
        others["sequences"] = _padded(visible.sequences.astype("int32"), {1: padded[0]})
    return _attended(form, arrays, others)[:, :length, :, :size]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attended(form: _Form, arrays: Arrays, others: Named) -> jax.Array:
    return _forward(form, arrays, others)[0]


@functools.partial(jax.jit, static_argnums=0)  # traced once for all layers
def _forward(form: _Form, arrays: Arrays, others: Named) -> tuple[jax.Array, jax.Array]:
    """Return o `[B, T, N, D]` and the logarithm of the softmax's divisor `[B, N, T]`, base 2."""
    call = _Call(form, arrays, others, FORWARD, over_keys=False)
    batch, length, _, heads, size = arrays[0].shape
    outputs = {
        "o": jax.ShapeDtypeStruct((batch, length, heads, size), arrays[0].dtype),
        "new_divisor": jax.ShapeDtypeStruct((batch, heads, length), "float32"),
    }
    return call.run(_forward_kernel, outputs)


def _forward_and_kept(form: _Form, arrays: Arrays, others: Named) -> tuple[jax.Array, Any]:
    o, divisor = _forward(form, arrays, others)
    return o, (arrays, others, o, divisor)


@functools.partial(jax.jit, static_argnums=0)
def _backward(form: _Form, kept: tuple[Any, ...], d_o: jax.Array) -> tuple[Arrays, dict[str, None]]:
    """Return the gradients of the arrays."""
    arrays, others, o, divisor = kept
    sums = jnp.einsum("btnd,btnd->bnt", d_o, o, preferred_element_type="float32")
    sums = sums * (1 / form.kept_scale)  # the kernels multiply their sums by it at the end
    more = {"d_o": d_o, "divisor": divisor, "sums": sums}
    call = _Call(form, arrays, {**others, **more}, KEYS, over_keys=True)
    (d_keys,) = call.run(_keys_kernel, {"d_kv": arrays[-1]})
    call = _Call(form, arrays, {**others, **more}, QUERIES, over_keys=False)
    # In self-attention the gradient of the queries goes into the array that has the other two.
    into = d_keys if len(arrays) == 1 else None
    found = call.run(_queries_kernel, {"d_q": arrays[0]}, into)
    return found + ((d_keys,) if into is None else ()), {name: None for name in others}


_attended.defvjp(_forward_and_kept, _backward)


class _Call:
    """The call of a kernel: a program for `own` positions of each head and row.

    With `over_keys` the program's own positions are keys, and its turns go over queries.
    """

    def __init__(
        self, form: _Form, arrays: Arrays, others: Named, tiles: Tiles, over_keys: bool
    ) -> None:
        tiles = _OF_WIDE if arrays[0].shape[-1] > 64 else tiles
        self.form, self.over_keys = form, over_keys
        self.batch, self.length, _, self.heads, self.size = arrays[0].shape
        self.source = arrays[-1].shape[1]
        own, turn = (self.source, self.length) if over_keys else (self.length, self.source)
        self.tiles = dataclasses.replace(tiles, own=min(own, tiles.own), turn=min(turn, tiles.turn))
        self.grid = (own // self.tiles.own, self.heads, self.batch)
        self.arrays, self.others = arrays, others

    def blocks(self) -> dict[str, pl.BlockSpec]:
        """Return what a program sees of each array: all positions, or its own of the outputs."""
        spec, own, size, pairs = pl.BlockSpec, self.tiles.own, self.size, -(-self.heads // 2)

        def part(array: int, index: int) -> pl.BlockSpec:
            shape = (None, self.arrays[array].shape[1], None, None, size)
            return spec(shape, lambda i, n, b: (b, 0, index, n, 0))

        parts = [(None, own, x.shape[2], None, size) for x in self.arrays]
        return {
            **{x: part(*place) for x, place in zip("qkv", self.form.parts, strict=True)},
            "mask": spec((None, self.source), lambda i, n, b: (b, 0)),
            "ends": spec((self.batch,), lambda i, n, b: (0,)),
            "sequences": spec((None, self.length), lambda i, n, b: (b, 0)),
            "rows": spec((None, None, self.length), lambda i, n, b: (b, n % pairs, 0)),
            "columns": spec((self.source,), lambda i, n, b: (0,)),
            "halves": spec((2,), lambda i, n, b: (0,)),
            "d_o": spec((None, self.length, None, size), lambda i, n, b: (b, 0, n, 0)),
            "divisor": spec((None, None, self.length), lambda i, n, b: (b, n, 0)),
            "sums": spec((None, None, self.length), lambda i, n, b: (b, n, 0)),
            "o": spec((None, own, None, size), lambda i, n, b: (b, i, n, 0)),
            "new_divisor": spec((None, None, own), lambda i, n, b: (b, n, i)),
            "d_q": spec(parts[0], lambda i, n, b: (b, i, 0, n, 0)),
            "d_kv": spec(parts[-1], lambda i, n, b: (b, i, 0, n, 0)),
        }

    def run(
        self, kernel: Callable[..., None], outputs: Named, into: jax.Array | None = None
    ) -> Arrays:
        """Return the outputs of a kernel, which takes a dict of references; see `blocks`.

        They have the shapes and dtypes of `outputs`; the first one is written `into` an array.
        """
        parts = zip("qkv", self.form.parts, strict=True)
        given = {**{name: self.arrays[array] for name, (array, _) in parts}, **self.others}
        blocks, alias = self.blocks(), {}
        if into is not None:
            given["into"], blocks["into"] = into, blocks[next(iter(outputs))]
            alias = {"input_output_aliases": {len(given) - 1: 0}}

        def named(*references: Any) -> None:
            x = dict(zip([*given, *outputs], references, strict=True))
            # Read here: in a loop an interpreted kernel doesn't know them.
            if "halves" in x:
                half = lax.div(pl.program_id(1), -(-self.heads // 2))
                x["low"] = x["halves"][half].astype("uint32")
            x["end"] = x["ends"][pl.program_id(2)] if "ends" in x else jnp.int32(self.source)
            kernel(x, pl.program_id(0) * self.tiles.own, self)

        return pl.pallas_call(
            named,
            grid=self.grid,
            in_specs=[blocks[name] for name in given],
            out_specs=tuple(blocks[name] for name in outputs),
            out_shape=tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in outputs.values()),
            compiler_params=triton.CompilerParams(num_warps=4, num_stages=self.tiles.stages),
            interpret=self.form.interpret,
            name=kernel.__name__.strip("_"),
            **alias,
        )(*given.values())

    def turns(self, x: Named, first: Any) -> Any:
        """Return how many blocks of keys there are that the queries from `first` on may see."""
        end, size = x["end"], self.tiles.turn
        if self.form.causal:
            end = jnp.minimum(end, first + self.tiles.own)
        return lax.div(end + (size - 1), size)

    def masked(self, x: Named, queries: Any, keys: Any, scores: Any) -> Any:
        """Return the scores of a block, with `_MASKED` where they don't count.

        Its first positions are `queries` and `keys`; in a kernel over keys scores are `[s, t]`.
        """
        of_queries, of_keys, of_query, of_key = self._axes(queries, keys, scores.shape)
        visible = []
        if "mask" in x:
            visible.append(of_key(x["mask"][of_keys]) != 0)
        if self.form.causal:
            t, s = (jnp.arange(part.size, dtype="int32") for part in (of_queries, of_keys))
            visible.append(of_query(t + queries) >= of_key(s + keys))
        if "sequences" in x:
            visible.append(of_query(x["sequences"][of_queries]) == of_key(x["sequences"][of_keys]))
        if not visible:
            return scores
        return jnp.where(functools.reduce(jnp.logical_and, visible), scores, _MASKED)

    def exp2(self, x: jax.Array) -> jax.Array:
        """Return `2^x`, in one instruction, to which the smallest numbers are 0."""
        if self.form.interpret:
            return jnp.exp2(x)
        (power,) = triton.elementwise_inline_asm(
            "ex2.approx.ftz.f32 $0, $1;",
            args=(x,),
            constraints="=f,f",
            pack=1,
            result_shape_dtypes=[jax.ShapeDtypeStruct(x.shape, x.dtype)],
        )
        return power

    def dropped(self, x: Named, queries: Any, keys: Any, p: Any) -> Any:
        """Return the numbers of a block with zeros for those that are dropped.

        The hash of `hashed_mask`: its first step is linear, and of the last one only the half of
        a word is computed that decides.
        """
        if "rows" not in x:
            return p
        of_queries, of_keys, of_query, of_key = self._axes(queries, keys, p.shape)
        a, b = x["rows"][of_queries].astype("uint32"), x["columns"][of_keys].astype("uint32")
        words = (of_query(a ^ (a >> 16)) ^ of_key(b ^ (b >> 16))) * _FACTORS[0]
        words = (words ^ (words >> 13)) * _FACTORS[1]
        words = words ^ ((words << 16) & x["low"])
        return jnp.where(words >= np.uint32(self.form.dropped << 16), p, 0.0)

    def _axes(self, queries: Any, keys: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the positions of queries and keys, and what lays each along its axis."""
        if self.over_keys:
            counts, of_query, of_key = shape[::-1], lambda t: t[None], lambda s: s[:, None]
        else:
            counts, of_query, of_key = shape, lambda t: t[:, None], lambda s: s[None]
        return pl.ds(queries, counts[0]), pl.ds(keys, counts[1]), of_query, of_key


def _forward_kernel(x: Named, first: Any, call: _Call) -> None:
    tiles, form = call.tiles, call.form
    q = x["q"][pl.ds(first, tiles.own), :]

    def turn(j: Any, carry: Arrays) -> Arrays:
        o, largest, total = carry
        keys = j * tiles.turn
        here = pl.ds(keys, tiles.turn)
        scores = call.masked(x, first, keys, triton.dot(q, x["k"][here, :], trans_b=True))  # [t, s]
        new = jnp.maximum(largest, jnp.max(scores, 1) * form.base_2)
        shrunk = call.exp2(largest - new)
        p = call.exp2(scores * form.base_2 - new[:, None])
        total = total * shrunk + jnp.sum(p, 1)
        # A product: selections would be made of the rounded numbers, one by one.
        p = (p * call.dropped(x, first, keys, jnp.ones_like(p))).astype(q.dtype)
        return o * shrunk[:, None] + triton.dot(p, x["v"][here, :]), new, total

    start = (
        jnp.zeros((tiles.own, call.size), "float32"),
        jnp.full(tiles.own, -jnp.inf, "float32"),
        jnp.zeros(tiles.own, "float32"),
    )
    o, largest, total = lax.fori_loop(jnp.int32(0), call.turns(x, first), turn, start)
    x["new_divisor"][...] = largest + jnp.log2(total)
    x["o"][...] = (o * (form.kept_scale / total)[:, None]).astype(q.dtype)


def _keys_kernel(x: Named, first: Any, call: _Call) -> None:
    """Store the gradients of keys and values; everything is `[s, t]`."""
    tiles, form = call.tiles, call.form
    here = pl.ds(first, tiles.own)
    k, v = x["k"][here, :], x["v"][here, :]

    def turn(i: Any, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        d_k, d_v = carry
        queries = i * tiles.turn
        those = pl.ds(queries, tiles.turn)
        q, d_o = x["q"][those, :], x["d_o"][those, :]
        exponents = triton.dot(k, q, trans_b=True) * form.base_2 - x["divisor"][those][None]
        p = call.exp2(call.masked(x, queries, first, exponents))
        pm = call.dropped(x, queries, first, p)
        d_p = triton.dot(v, d_o, trans_b=True)
        d_v = d_v + triton.dot(pm.astype(k.dtype), d_o)
        d_s = pm * d_p - p * x["sums"][those][None]
        return d_k + triton.dot(d_s.astype(k.dtype), q), d_v

    start = (jnp.zeros((tiles.own, call.size), "float32"),) * 2
    begin = lax.div(first, tiles.turn) if form.causal else jnp.int32(0)
    turns = jnp.int32(call.length // tiles.turn)
    if "ends" in x:  # no query sees keys behind the last real one
        turns = jnp.where(first < x["end"], turns, begin)
    d_k, d_v = lax.fori_loop(begin, turns, turn, start)
    of_k, of_v = (form.parts[n][1] for n in (1, 2))
    x["d_kv"][:, of_k, :] = (d_k * (form.scale * form.kept_scale)).astype(k.dtype)
    x["d_kv"][:, of_v, :] = (d_v * form.kept_scale).astype(k.dtype)


def _queries_kernel(x: Named, first: Any, call: _Call) -> None:
    """Store the gradient of the queries."""
    tiles, form = call.tiles, call.form
    here = pl.ds(first, tiles.own)
    q, d_o, divisor, sums = x["q"][here, :], x["d_o"][here, :], x["divisor"][here], x["sums"][here]

    def turn(j: Any, d_q: jax.Array) -> jax.Array:
        keys = j * tiles.turn
        those = pl.ds(keys, tiles.turn)
        k = x["k"][those, :]
        exponents = triton.dot(q, k, trans_b=True) * form.base_2 - divisor[:, None]
        p = call.exp2(call.masked(x, first, keys, exponents))
        d_p = triton.dot(d_o, x["v"][those, :], trans_b=True)
        d_s = p * (call.dropped(x, first, keys, d_p) - sums[:, None])
        return d_q + triton.dot(d_s.astype(q.dtype), k)

    start = jnp.zeros((tiles.own, call.size), "float32")
    d_q = lax.fori_loop(jnp.int32(0), call.turns(x, first), turn, start)
    x["d_q"][:, form.parts[0][1], :] = (d_q * (form.scale * form.kept_scale)).astype(q.dtype)


def _padded_length(length: int) -> int:
    """Return the length that the kernels compute, of which their blocks are a part."""
    block = min(128, max(_SMALLEST, pl.next_power_of_2(length)))
    return -(-length // block) * block


def _padded(x: jax.Array, sizes: dict[int, int]) -> jax.Array:
    """Return x with zeros behind it up to the sizes of the axes given."""
    if all(x.shape[axis] == size for axis, size in sizes.items()):
        return x
    return jnp.pad(x, [(0, sizes.get(axis, n) - n) for axis, n in enumerate(x.shape)])
