"""Array functions in forms that XLA's compilers make fast, for code that runs on JAX.

Where CPUs and TPUs take different forms, the choice is made when a program is compiled.
`layers` and `tasks` import this module in functions, once they know that Keras's backend is JAX.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint

_WIDE = 2**23  # elements of an array that is larger than the caches of a CPU


def narrow_product(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return `x y` of bfloat16 arrays `[..., M, K]` and `[..., K, N]`, in bfloat16.

    The compiler has a product that uses bfloat16 instructions only for two operands that lie in
    memory row by row and a float32 result. Others are computed in float32, in twice the time: a
    bfloat16 result, and a transposed operand, as both gradients of a product have. So operands are
    transposed in memory first, which takes little beside the product, and the result is rounded
    after it. On a processor without such instructions that takes 1.6 times as long as `matmul`.
    """
    if not _has_bfloat16():
        return jnp.matmul(x, y)

    def on_cpu(*operands: jax.Array) -> jax.Array:
        rows = Layout(major_to_minor=tuple(range(x.ndim)))
        operands = [with_layout_constraint(operand, rows) for operand in operands]
        return jnp.matmul(*operands, preferred_element_type="float32").astype(x.dtype)

    return jax.lax.platform_dependent(x, y, cpu=on_cpu, default=jnp.matmul)


@functools.cache
def _has_bfloat16() -> bool:
    """Return whether this machine's processor multiplies bfloat16 numbers; unknown ones do."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), None)
    except OSError:  # another system
        return True
    return flags is None or not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)


def sum_of_rows(x: jax.Array) -> jax.Array:
    """Return `sum_n x_n` of `[N, V]`, float32 `[V]`.

    A sum in bfloat16 takes seventy times as long as one in float32, and a sum over rows of an array
    that is larger than the caches thirty times as long as reading it; a product with ones does not.
    """

    def product(x: jax.Array) -> jax.Array:
        ones = jnp.ones((1, x.shape[0]), x.dtype)
        return jnp.matmul(ones, x, precision="highest", preferred_element_type="float32")[0]

    def total(x: jax.Array) -> jax.Array:
        return x.sum(0, dtype="float32")

    def of_eight(x: jax.Array) -> jax.Array:
        ones = jnp.ones((8, x.shape[0]), x.dtype)
        # All rows are the same; of one alone the compiler would make a product with one row.
        return jnp.matmul(ones, x, preferred_element_type="float32").max(0)

    on_cpu = product if x.size > _WIDE else total
    return jax.lax.platform_dependent(x, cpu=on_cpu, tpu=of_eight, default=total)


def first_largest(z: jax.Array) -> jax.Array:
    """Return the first v with the largest `z_v` of `[..., V]`, int32 `[...]`.

    `argmax` takes four times as long, because it keeps two numbers at every step.
    """
    return jax.lax.platform_dependent(
        z,
        cpu=lambda z: jax.lax.top_k(z, 1)[1][..., 0],  # of equal ones the first
        default=lambda z: jnp.argmax(z, -1).astype("int32"),
    )


def columns(matrix: jax.Array, x: jax.Array) -> jax.Array:
    """Return `M x_t` of every position: `[F, C]` and `[B, T, C]` to `[B, F, T]`.

    Of `einsum` a TPU's compiler makes a product `[B, T, F]` and rearranges it in memory, which
    takes longer than the product.
    """
    return jax.lax.dot_general(matrix, x, (((1,), (2,)), ((), ()))).transpose(1, 0, 2)


def empty_like(x: jax.Array) -> jax.Array:
    """Return an array of the shape and dtype of x without values."""
    return jax.lax.empty(x.shape, x.dtype)


def barrier(x: jax.Array) -> jax.Array:
    """Return x, as an array that the compiler does not compute again or in another dtype."""
    return jax.lax.optimization_barrier(x)


def softmax(x: jax.Array) -> jax.Array:
    """Return the softmax over the last axis, in the form that a TPU's compiler fuses.

    Maximum, exponential and sum become a part of the product that makes x if the maximum is
    broadcast in one step, as TensorFlow lowers it.
    """
    others = tuple(range(x.ndim - 1))
    largest = x.max(-1)
    e = jnp.exp(x - jax.lax.broadcast_in_dim(largest, x.shape, others))
    total = e.sum(-1)
    return e / jax.lax.broadcast_in_dim(total, x.shape, others)


def with_slopes(
    function: Callable[[jax.Array], dict[str, jax.Array]], x: jax.Array
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Return `function(x)`, a dict, and the gradient of the sum of its `loss`."""

    def total(x: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        found = function(x)
        return found["loss"].sum(), found

    slopes, found = jax.grad(total, has_aux=True)(x)
    return found, slopes


def rematerialized(function: Callable[..., Any], arrays: Sequence[jax.Array]) -> Any:
    """Return `function(*arrays)`, of which a gradient keeps `arrays` alone.

    `jax.checkpoint` traces the function once for both passes. Then a hand-written gradient in it
    can't use arrays that its function has from outside, such as masks.
    """

    @jax.custom_vjp
    def computed(*arrays: jax.Array) -> Any:
        return function(*arrays)

    def forward(*arrays: jax.Array) -> tuple[Any, tuple[jax.Array, ...]]:
        return function(*arrays), arrays

    def backward(arrays: tuple[jax.Array, ...], upstream: Any) -> tuple[Any, ...]:
        return jax.vjp(function, *_after(upstream, arrays))[1](upstream)

    computed.defvjp(forward, backward)
    return computed(*arrays)


def _after(upstream: Any, arrays: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Return equal arrays that a compiler takes for others, which depend on `upstream`.

    Otherwise it finds that the same is computed twice, and keeps the first results. The compiler
    for CPUs forgets barriers before it orders operations: only a number keeps the order.
    """

    def on_cpu(arrays: tuple[jax.Array, ...], first: jax.Array) -> tuple[jax.Array, ...]:
        zero = jnp.where(first == first, 0.0, jnp.nan)  # no compiler knows it
        return tuple(x if x.dtype == bool else x + zero.astype(x.dtype) for x in arrays)

    def elsewhere(arrays: tuple[jax.Array, ...], first: jax.Array) -> tuple[jax.Array, ...]:
        return jax.lax.optimization_barrier((arrays, first))[0]

    first = jax.tree.leaves(upstream)[0].ravel()[0]
    return jax.lax.platform_dependent(arrays, first, cpu=on_cpu, default=elsewhere)


def by_platform(
    on_tpu: Callable[..., Any],
    elsewhere: Callable[..., Any],
    *arrays: Any,
    on_gpu: Callable[..., Any] | None = None,
) -> Any:
    """Return what the function for the platform returns that a program is compiled for.

    Outside of programs, where every operation is one, it is `elsewhere`.
    """
    traced = any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(arrays))
    if not traced or on_tpu is elsewhere is (on_gpu or elsewhere):
        return elsewhere(*arrays)
    forms = {"tpu": on_tpu, "cuda": on_gpu or elsewhere, "default": elsewhere}
    forms = {
        name: form for name, form in forms.items() if name == "default" or form is not elsewhere
    }
    return jax.lax.platform_dependent(*arrays, **forms)
