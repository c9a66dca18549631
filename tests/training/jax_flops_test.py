"""Operations that are counted in what JAX has traced, beside the formulas."""

import pytest

jax = pytest.importorskip("jax", reason="needs JAX: pip install -e '.[jax]'")

from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

from tfnlp.training.engines.jax_flops import matmul_flops  # noqa: E402

M, K, N = 3, 5, 7


def counted(function, *shapes):
    return matmul_flops(jax.make_jaxpr(function)(*[jnp.zeros(shape) for shape in shapes]))


def product(a, b):
    return a @ b


def test_products_forward_and_backward():
    assert counted(product, (M, K), (K, N)) == 2 * M * K * N
    assert counted(product, (4, M, K), (4, K, N)) == 4 * 2 * M * K * N
    both = jax.grad(lambda a, b: product(a, b).sum(), argnums=(0, 1))
    assert counted(both, (M, K), (K, N)) == 2 * 2 * M * K * N + 2 * M * K * N


def test_what_is_inside_calls_loops_and_branches():
    assert counted(jax.jit(jax.checkpoint(product)), (M, K), (K, N)) == 2 * M * K * N

    def loop(x, w):
        return lax.scan(lambda carry, _: (carry @ w, None), x, length=6)[0]

    assert counted(loop, (M, K), (K, K)) == 6 * 2 * M * K * K

    def branch(x, w):
        return lax.cond(x.sum() > 0, lambda: x @ w, lambda: x @ w @ w)

    assert counted(branch, (M, K), (K, K)) == 2 * 2 * M * K * K


def test_of_forms_for_other_platforms_only_that_for_this_one_counts():
    def forms(x, w):
        return lax.platform_dependent(x, w, tpu=lambda x, w: x @ w @ w, default=product)

    assert counted(forms, (M, K), (K, K)) == 2 * M * K * K
    assert jax.default_backend() == "cpu"


def test_loops_without_known_passes():
    def loop(x, w):
        return lax.while_loop(lambda y: y.sum() > 1, lambda y: y @ w, x)

    assert counted(loop, (M, K), (K, K)) is None
    assert counted(lambda x: lax.while_loop(lambda y: y.sum() > 1, lambda y: y / 2, x), (M,)) == 0


def test_convolution():
    def convolve(x, kernel):  # [B, T, C] with [W, C, N]
        return lax.conv_general_dilated(
            x, kernel, (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")
        )

    assert counted(convolve, (2, 10, K), (3, K, N)) == 2 * 2 * 8 * N * 3 * K
