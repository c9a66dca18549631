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

The kernels are written in Pallas and compiled by Triton. On an H200, 32 rows of 512, 12 heads of 64
take 475 us with dropout and 400 without, where cuDNN's take 457 without. cuDNN's dropout has its
seed in the program and counts its own calls: a run that was killed would go on with other masks.
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

_LOG2_E = math.log2(math.e)
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
    warps: int
    stages: int


# By time on an H200 for up to 64 numbers a head, with dropout.
FORWARD, KEYS, QUERIES = Tiles(128, 64, 4, 3), Tiles(64, 64, 4, 3), Tiles(64, 64, 4, 3)
_OF_WIDE = Tiles(64, 32, 4, 2)  # for up to 128


@dataclasses.dataclass(frozen=True)
class _Form:
    """What a kernel is compiled for."""

    parts: tuple[tuple[int, int], ...]  # of q, k and v: the array, the index of its third axis
    scale: float  # of the scores, `1 / sqrt(D)`
    causal: bool
    dropped: int  # see `Drops`; 0 for none
    interpret: bool  # run the kernels in Python, on any device

    @property
    def kept_scale(self) -> float:
        """What the probabilities that are kept are multiplied by."""
        return 65536 / (65536 - self.dropped)

    @property
    def base_2(self) -> float:
        """What makes of a product `q . k` the exponent of a power of 2."""
        return self.scale * _LOG2_E


def fused_attention(
    arrays: tuple[jax.Array, ...],
    visible: Visible,
    drops: Drops | None = None,
    interpret: bool = False,
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
    dropped = 0 if drops is None else drops.dropped
    form = _Form(parts, size**-0.5, causal, dropped, interpret)
    if mask is None and padded[1] != source and not causal:
        mask = jnp.ones((arrays[0].shape[0], source), "int32")
    extents = (padded[0], padded[-1])
    arrays = tuple(
        _padded(x, {1: n, 4: wide}) for x, n in zip(arrays, extents[: len(arrays)], strict=True)
    )
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
def _attended(
    form: _Form, arrays: tuple[jax.Array, ...], others: dict[str, jax.Array]
) -> jax.Array:
    return _forward(form, arrays, others)[0]


@functools.partial(jax.jit, static_argnums=0)  # traced once for all layers
def _forward(
    form: _Form, arrays: tuple[jax.Array, ...], others: dict[str, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Return o `[B, T, N, D]` and the logarithm of the softmax's divisor `[B, N, T]`, base 2."""
    call = _Call(form, arrays, others, FORWARD, over_keys=False)
    shape = (call.batch, call.length, call.heads, call.size)
    outputs = {
        "o": (shape, arrays[0].dtype, call.own_rows),
        "divisor": ((call.batch, call.heads, call.length), "float32", call.own_numbers),
    }
    return call.run(_forward_kernel, outputs, {})


def _forward_and_kept(
    form: _Form, arrays: tuple[jax.Array, ...], others: dict[str, jax.Array]
) -> tuple[jax.Array, tuple[Any, ...]]:
    o, divisor = _forward(form, arrays, others)
    return o, (arrays, others, o, divisor)


@functools.partial(jax.jit, static_argnums=0)
def _backward(
    form: _Form, kept: tuple[Any, ...], d_o: jax.Array
) -> tuple[tuple[jax.Array, ...], dict[str, None]]:
    """Return the gradients of the arrays."""
    arrays, others, o, divisor = kept
    sums = jnp.einsum("btnd,btnd->bnt", d_o, o, preferred_element_type="float32")
    sums = sums * (1 / form.kept_scale)  # the kernels multiply their sums by it at the end
    more = {"d_o": d_o, "divisor": divisor, "sums": sums}
    of_keys = len(arrays) - 1
    call = _Call(form, arrays, others, KEYS, over_keys=True)
    like = arrays[of_keys]
    outputs = {"d_kv": (like.shape, like.dtype, call.own_parts(like.shape[2]))}
    (d_keys,) = call.run(_keys_kernel, outputs, more)
    call = _Call(form, arrays, others, QUERIES, over_keys=False)
    like = arrays[0]
    outputs = {"d_q": (like.shape, like.dtype, call.own_parts(like.shape[2]))}
    if of_keys:
        (d_queries,) = call.run(_queries_kernel, outputs, more)
        return (d_queries, d_keys), {name: None for name in others}
    # The gradient of the queries goes into the array that has those of keys and values.
    return call.run(_queries_kernel, outputs, more, into=d_keys), {name: None for name in others}


_attended.defvjp(_forward_and_kept, _backward)


class _Call:
    """The call of a kernel: a program for `own` positions of each head and row.

    With `over_keys` the program's own positions are keys, and its turns go over queries.
    """

    def __init__(
        self,
        form: _Form,
        arrays: tuple[jax.Array, ...],
        others: dict[str, jax.Array],
        tiles: Tiles,
        over_keys: bool,
    ) -> None:
        tiles = _OF_WIDE if arrays[0].shape[-1] > 64 else tiles
        self.form, self.over_keys = form, over_keys
        self.batch, self.length, _, self.heads, self.size = arrays[0].shape
        self.source = arrays[-1].shape[1]
        own, turn = (self.source, self.length) if over_keys else (self.length, self.source)
        self.tiles = dataclasses.replace(tiles, own=min(own, tiles.own), turn=min(turn, tiles.turn))
        self.grid = (own // self.tiles.own, self.heads, self.batch)
        self.arrays, self.others = arrays, others

    def own_rows(self) -> pl.BlockSpec:
        """Return the block of `[B, T, N, D]` of the program's own positions."""
        return pl.BlockSpec((None, self.tiles.own, None, self.size), lambda i, n, b: (b, i, n, 0))

    def own_numbers(self) -> pl.BlockSpec:
        """Return the block of `[B, N, T]` of the program's own positions."""
        return pl.BlockSpec((None, None, self.tiles.own), lambda i, n, b: (b, n, i))

    def own_parts(self, parts: int) -> Callable[[], pl.BlockSpec]:
        """Return the block of all parts `[B, T, parts, N, D]` of the program's own positions."""
        shape = (None, self.tiles.own, parts, None, self.size)
        return lambda: pl.BlockSpec(shape, lambda i, n, b: (b, i, 0, n, 0))

    def run(
        self,
        kernel: Callable[..., None],
        outputs: dict[str, tuple[tuple[int, ...], Any, Callable[[], pl.BlockSpec]]],
        more: dict[str, jax.Array],
        into: jax.Array | None = None,
    ) -> tuple[jax.Array, ...]:
        """Return the outputs of a kernel, which takes a dict of references."""
        given, specs = {}, {}
        for name, (array, part) in zip("qkv", self.form.parts, strict=True):
            given[name], specs[name] = self.arrays[array], self._all_of_part(array, part)
        given.update(self.others)
        given.update(more)
        pairs = -(-self.heads // 2)
        whole = {
            "mask": pl.BlockSpec((None, self.source), lambda i, n, b: (b, 0)),
            "ends": pl.BlockSpec((self.batch,), lambda i, n, b: (0,)),
            "sequences": pl.BlockSpec((None, self.length), lambda i, n, b: (b, 0)),
            "rows": pl.BlockSpec((None, None, self.length), lambda i, n, b: (b, n % pairs, 0)),
            "columns": pl.BlockSpec((self.source,), lambda i, n, b: (0,)),
            "halves": pl.BlockSpec((2,), lambda i, n, b: (0,)),
            "d_o": pl.BlockSpec((None, self.length, None, self.size), lambda i, n, b: (b, 0, n, 0)),
        }
        of_queries = pl.BlockSpec((None, None, self.length), lambda i, n, b: (b, n, 0))
        specs = {name: specs.get(name, whole.get(name, of_queries)) for name in given}
        alias = {}
        if into is not None:
            given["into"], specs["into"] = into, next(iter(outputs.values()))[2]()
            alias = {"input_output_aliases": {len(given) - 1: 0}}

        def named(*references: Any) -> None:
            x = dict(zip([*given, *outputs], references, strict=True))
            # Read here: in a loop an interpreted kernel doesn't know them.
            if "halves" in x:
                x["low"] = x["halves"][lax.div(pl.program_id(1), pairs)].astype("uint32")
            end = x["ends"][pl.program_id(2)] if "ends" in x else jnp.int32(self.source)
            x["end"] = end
            kernel(x, pl.program_id(0) * self.tiles.own, self)

        return pl.pallas_call(
            named,
            grid=self.grid,
            in_specs=list(specs.values()),
            out_specs=tuple(spec() for _, _, spec in outputs.values()),
            out_shape=tuple(
                jax.ShapeDtypeStruct(shape, dtype) for shape, dtype, _ in outputs.values()
            ),
            compiler_params=triton.CompilerParams(
                num_warps=self.tiles.warps, num_stages=self.tiles.stages
            ),
            interpret=self.form.interpret,
            name=kernel.__name__.strip("_"),
            **alias,
        )(*given.values())

    def _all_of_part(self, array: int, part: int) -> pl.BlockSpec:
        """Return the block of all positions of one head in a part of an array."""
        shape = (None, self.arrays[array].shape[1], None, None, self.size)
        return pl.BlockSpec(shape, lambda i, n, b: (b, 0, part, n, 0))

    def masked(self, x: dict[str, Any], queries: Any, keys: Any, scores: Any) -> Any:
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

    def dropped(self, x: dict[str, Any], queries: Any, keys: Any, p: Any) -> Any:
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


def _forward_kernel(x: dict[str, Any], first: Any, call: _Call) -> None:
    tiles, form = call.tiles, call.form
    q = x["q"][pl.ds(first, tiles.own), :]

    def turn(j: Any, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        o, largest, total = carry
        keys = j * tiles.turn
        here = pl.ds(keys, tiles.turn)
        scores = triton.dot(q, x["k"][here, :], trans_b=True)  # [t, s]
        scores = call.masked(x, first, keys, scores)
        new = jnp.maximum(largest, jnp.max(scores, 1) * form.base_2)
        shrunk = call.exp2(largest - new)
        p = call.exp2(scores * form.base_2 - new[:, None])
        total = total * shrunk + jnp.sum(p, 1)
        # A product: selections would be made of the rounded numbers, one by one.
        p = (p * call.dropped(x, first, keys, jnp.ones_like(p))).astype(q.dtype)
        return o * shrunk[:, None] + triton.dot(p, x["v"][here, :]), new, total

    end = x["end"]
    if form.causal:
        end = jnp.minimum(end, first + tiles.own)
    start = (
        jnp.zeros((tiles.own, call.size), "float32"),
        jnp.full(tiles.own, -jnp.inf, "float32"),
        jnp.zeros(tiles.own, "float32"),
    )
    o, largest, total = lax.fori_loop(jnp.int32(0), _turns(end, tiles.turn), turn, start)
    x["divisor"][...] = largest + jnp.log2(total)
    x["o"][...] = (o * (form.kept_scale / total)[:, None]).astype(q.dtype)


def _keys_kernel(x: dict[str, Any], first: Any, call: _Call) -> None:
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

    start = (
        jnp.zeros((tiles.own, call.size), "float32"),
        jnp.zeros((tiles.own, call.size), "float32"),
    )
    begin = lax.div(first, tiles.turn) if form.causal else jnp.int32(0)
    turns = jnp.int32(call.length // tiles.turn)
    if "ends" in x:  # no query sees keys behind the last real one
        turns = jnp.where(first < x["end"], turns, begin)
    d_k, d_v = lax.fori_loop(begin, turns, turn, start)
    of_k, of_v = (form.parts[n][1] for n in (1, 2))
    x["d_kv"][:, of_k, :] = (d_k * (form.scale * form.kept_scale)).astype(k.dtype)
    x["d_kv"][:, of_v, :] = (d_v * form.kept_scale).astype(k.dtype)


def _queries_kernel(x: dict[str, Any], first: Any, call: _Call) -> None:
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

    end = x["end"]
    if form.causal:
        end = jnp.minimum(end, first + tiles.own)
    start = jnp.zeros((tiles.own, call.size), "float32")
    d_q = lax.fori_loop(jnp.int32(0), _turns(end, tiles.turn), turn, start)
    d_q = d_q * (form.scale * form.kept_scale)
    x["d_q"][:, form.parts[0][1], :] = d_q.astype(q.dtype)


def _turns(end: Any, size: int) -> Any:
    """Return how many blocks of `size` there are up to `end`."""
    return lax.div(end + (size - 1), size)


def _padded_length(length: int) -> int:
    """Return the length that the kernels compute, of which their blocks are a part."""
    block = min(128, max(_SMALLEST, pl.next_power_of_2(length)))
    return -(-length // block) * block


def _padded(x: jax.Array, sizes: dict[int, int]) -> jax.Array:
    """Return x with zeros behind it up to the sizes of the axes given."""
    if all(x.shape[axis] == size for axis, size in sizes.items()):
        return x
    return jnp.pad(x, [(0, sizes.get(axis, n) - n) for axis, n in enumerate(x.shape)])
