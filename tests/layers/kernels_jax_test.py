"""The kernels that JAX's CPU has for itself, in a process on JAX, against NumPy in float64."""

import pathlib

import pytest

from tests.support import QUICK_JAX, run_python

JAX = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}

_KERNELS = """
import jax
import numpy as np
from jax import numpy as jnp

from tfnlp.layers.kernels.cross_entropy import cross_entropy_of_rows, vocabulary_loss
from tfnlp.layers.kernels.products import add_bias, product
from tfnlp.objectives.cross_entropy import best_class, cross_entropy

random = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return jnp.asarray(random.standard_normal(shape), dtype)


def wide(*arrays):
    return [np.asarray(x.astype("float32"), "float64") for x in arrays]


def compare(got, want, rounding):
    np.testing.assert_allclose(*wide(got), want, rtol=rounding, atol=rounding)


# Products of matrices and of stacks of them, and both gradients, compiled and not.
for dtype, rounding in (("float32", 1e-4), ("bfloat16", 2e-2)):
    for lead in ((), (2, 3)):
        x, y = normal(*lead, 24, 40, dtype=dtype) / 7, normal(*lead, 40, 56, dtype=dtype)
        dz = normal(*lead, 24, 56, dtype=dtype) / 7
        a, b, c = wide(x, y, dz)
        for run in (lambda f: f, jax.jit):
            z, back = jax.vjp(run(product), x, y)
            assert z.dtype == dtype
            compare(z, a @ b, rounding)
            dx, dy = back(dz)
            compare(dx, c @ b.swapaxes(-1, -2), rounding)
            compare(dy, a.swapaxes(-1, -2) @ c, rounding)

# Biases: of rows in the caches, of rows that are larger than them, and in bfloat16.
for shape, dtype, rounding in (
    ((5, 7, 12), "float32", 1e-5), ((70, 130000), "float32", 1e-4), ((400, 12), "bfloat16", 1e-2),
):
    x, bias, dy = (normal(*s, dtype=dtype) for s in (shape, shape[-1:], shape))
    y, back = jax.vjp(jax.jit(add_bias), x, bias)
    compare(y, sum(wide(x, bias)), rounding)
    dx, d_bias = back(dy)
    compare(dx, wide(dy)[0], rounding)
    compare(d_bias, wide(dy)[0].reshape(-1, shape[-1]).sum(0), rounding)

# Cross-entropy with and without smoothing, of large and small logits.
z, ids, up = 30 * normal(6, 50), jnp.asarray(random.integers(0, 50, 6), "int32"), normal(6)
for epsilon in (0.0, 0.1):
    loss, back = jax.vjp(lambda z: cross_entropy_of_rows(z, ids, epsilon), z)
    (a, g), q = wide(z, up), np.eye(50)[ids] * (1 - epsilon) + epsilon / 50
    log_p = a - a.max(-1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(-1, keepdims=True))
    compare(loss, -(q * log_p).sum(-1), 1e-5)
    compare(back(up)[0], (np.exp(log_p) - q) * g[:, None], 1e-5)
stacked = cross_entropy(z.reshape(2, 3, 50), ids.reshape(2, 3))
compare(stacked, wide(cross_entropy_of_rows(z, ids))[0].reshape(2, 3), 1e-6)

# The loss over a vocabulary in turns of 8 positions, with hits, and its gradients.
h, table, bias, up = normal(23, 4), normal(11, 4), normal(11), jnp.asarray([1.7, 0.0])
ids, counted = jnp.asarray(random.integers(0, 11, 23), "int32"), abs(normal(23))
loss = jax.jit(lambda *x: jnp.stack(vocabulary_loss(*x, ids, counted, 8)))
got, back = jax.vjp(loss, h, table, bias)
a, e, b, w = wide(h, table, bias, counted)
p = np.exp(a @ e.T + b)
p /= p.sum(-1, keepdims=True)
hits = (p.argmax(-1) == np.asarray(ids)) * w
compare(got, [-(np.log(p[np.arange(23), ids]) * w).sum(), hits.sum()], 1e-4)
d = (p - np.eye(11)[ids]) * w[:, None] * 1.7
for one, want in zip(back(up), (d @ e, d.T @ a, d.sum(0)), strict=True):
    compare(one, want, 1e-4)

# Of equal logits the first one, as TensorFlow and NumPy have it.
z = jnp.asarray(random.integers(0, 4, (9, 3, 20)), "float32")
best = jax.jit(best_class)(z)
assert best.dtype == "int32"
np.testing.assert_array_equal(best, np.argmax(z, -1))
"""

_MEMORY = """
import resource
from tfnlp import training  # before the first array
import jax
from jax import numpy as jnp

step = jax.jit(lambda x: (jnp.sin(x) @ jnp.cos(x) @ jnp.tanh(x)).sum())  # 16 MB and more a result
x = jnp.ones((2048, 2048))
for _ in range(3):
    step(x).block_until_ready()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step(x).block_until_ready()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


_TARGETS = """
import jax
from jax import numpy as jnp

from tfnlp.layers import CharCNN, ProjectedLSTM


def program(layer, x, platform):
    settings = {"training": True} if layer is lstm else {}

    def loss(weights, x):
        y, _ = layer.stateless_call(weights, [], x, **settings)
        return jnp.sum(y[0] if isinstance(y, tuple) else y)

    gradient = jax.jit(jax.grad(loss))
    weights = [v.value for v in layer.trainable_variables]
    return gradient.trace(weights, x).lower(lowering_platforms=(platform,)).as_text()


lstm, cnn = ProjectedLSTM(6, 4), CharCNN(20, 3, ((1, 4), (3, 5)), "relu", 0, None)
inputs = {lstm: jnp.zeros((2, 5, 4)), cnn: jnp.ones((2, 5, 8), "int32")}
found = {}
for layer, x in inputs.items():
    layer(x)
    for platform in ("cpu", "tpu"):
        found[layer, platform] = program(layer, x, platform)
assert "stablehlo.while" in found[lstm, "cpu"] and "stablehlo.while" not in found[lstm, "tpu"]
count = {p: found[cnn, p].count("stablehlo.dot_general") for p in ("cpu", "tpu")}
assert count == {"cpu": 2 * 3, "tpu": 8 + 2}  # one for each width; one for each place
"""


@pytest.mark.long
def test_programs_for_a_tpu_have_other_forms_of_some_layers():
    run_python(_TARGETS, env=JAX)


@pytest.mark.slow
def test_values_and_gradients():
    run_python(_KERNELS, env=JAX)


@pytest.mark.long
@pytest.mark.skipif(not pathlib.Path("/proc/self/maps").exists(), reason="glibc of Linux alone")
def test_memory_of_a_step_is_kept_for_the_next():
    kept, given_back = (
        int(run_python(_MEMORY, env={**JAX, "TFNLP_KEEP_MEMORY": keep}).stdout)
        for keep in ("1", "0")
    )
    assert kept < given_back / 2  # the system takes some pages back itself


_LAYERS = """
import functools
import types
from unittest import mock

import jax
import numpy as np
from jax import numpy as jnp

import tfnlp.layers.attention as attention

random = np.random.default_rng(0)
B, T, S = 4, 13, 9
x, y = (jnp.asarray(random.standard_normal(s), "float32") for s in ((B, T, 16), (B, S, 8)))
keys = jnp.arange(S) < jnp.asarray([[9], [5], [1], [7]])
ids = jnp.asarray(np.sort(random.integers(0, 3, (B, T)), 1), "int32")
CALLS = {
    "self": (dict(causal=True), dict(mask=jnp.ones((B, T), bool).at[:, 11:].set(False))),
    "cross": ({}, dict(context=y, mask=keys)),
    "packed": ({}, dict(sequence_ids=ids)),
}


def made(settings, inputs):
    layer = attention.MultiHeadAttention(2, dropout=0.3, **settings)
    layer.build(x.shape, *([y.shape] if "context" in inputs else []))
    weights = [v.value for v in layer.trainable_variables]
    state = [v.value for v in layer.non_trainable_variables]

    def step(weights, x):
        def loss(weights, x):
            out, _ = layer.stateless_call(weights, state, x, training=True, **inputs)
            return jnp.sum(jnp.sin(out)), out

        return jax.value_and_grad(loss, (0, 1), has_aux=True)(weights, x)

    return step, weights
"""

_IN_BLOCKS = """
for name, call in CALLS.items():
    step, weights = made(*call)
    found, loops = [], {}
    # As a whole; in blocks on a TPU alone; in blocks.
    for on_tpu, elsewhere in ((2**24, 2**26), (2 * T, 2**26), (2 * T, 2 * T)):
        blocks, attention._BLOCK = attention.BLOCKS, 2 * T * T
        attention.CHOICES = ("tpu", blocks, on_tpu), ("cpu", blocks, elsewhere)
        traced = jax.jit(lambda *arguments: step(*arguments)).trace(weights, x)
        for platform in ("tpu", "cpu"):
            text = traced.lower(lowering_platforms=(platform,)).as_text()
            # Which of the two ways was traced shows in the loops over rows; draws are loops, too.
            loops[on_tpu, elsewhere, platform] = text.count("stablehlo.while")
        found.append(jax.tree.leaves(traced.lower().compile()(weights, x)))
    for one in found[1:]:
        for a, b in zip(one, found[0], strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5, err_msg=name)
    for (on_tpu, elsewhere, platform), count in loops.items():
        in_blocks = (on_tpu if platform == "tpu" else elsewhere) == 2 * T
        assert (count > loops[2**24, 2**26, platform]) == in_blocks, (name, loops)
"""


@pytest.mark.long
def test_attention_in_blocks_on_a_tpu_and_whole_elsewhere():
    run_python(_LAYERS + _IN_BLOCKS, env=JAX)


_ON_A_GPU = """
kernel = functools.partial(attention.gpu.fused_attention, interpret=True)
interpreted = types.SimpleNamespace(fused_attention=kernel, fits=lambda size, dtype: True)
here = dict(gpu=interpreted, by_target=lambda on_tpu, elsewhere, x, on_gpu: on_gpu(x))
for name in ("self", "cross"):
    step, weights = made(*CALLS[name])
    whole = jax.tree.leaves(jax.jit(functools.partial(step))(weights, x))
    with mock.patch.multiple(attention, **here):
        fused = jax.tree.leaves(jax.jit(functools.partial(step))(weights, x))
    assert any((a != b).any() for a, b in zip(fused, whole, strict=True))  # two forms
    for a, b in zip(fused, whole, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)
"""


@pytest.mark.slow
def test_a_layer_trains_the_same_way_on_a_gpu():
    run_python(_LAYERS + _ON_A_GPU, env={**JAX, **QUICK_JAX})


_PLATFORMS = """
import jax
from jax import numpy as jnp

from tfnlp.jax_forms import by_platform


def text(platform, **forms):
    traced = jax.jit(lambda x: by_platform(jnp.sin, jnp.cos, x, **forms)).trace(1.0)
    return traced.lower(lowering_platforms=(platform,)).as_text()


for platform, here in (("tpu", "sine"), ("cuda", "tanh"), ("rocm", "cosine"), ("cpu", "cosine")):
    assert f"stablehlo.{here} " in text(platform, on_gpu=jnp.tanh), platform
assert "stablehlo.cosine " in text("cuda") and "stablehlo.sine " in text("tpu")
"""


@pytest.mark.slow
def test_a_form_is_chosen_when_a_program_is_lowered():
    run_python(_PLATFORMS, env={**JAX, **QUICK_JAX})
