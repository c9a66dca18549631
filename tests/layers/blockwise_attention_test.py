"""All forms of attention are one: values, gradients, dropout from the same draws."""

import jax
import numpy as np
import pytest
import tensorflow as tf
from jax import numpy as jnp

from tests.layers.gradients import gradients
from tests.layers.reference import randomize
from tfnlp.jax_attention import fused_attention
from tfnlp.layers import LowRank, MultiHeadAttention, TransformerBlock, attention
from tfnlp.layers.kernels.attention import Drops, Visible
from tfnlp.layers.kernels.blockwise_attention import Blocks, blocks_of

B, T, D = 4, 13, 5
KINDS = {
    "self": {},
    "causal": {"causal": True},
    "cross": {"source": 9},
    "causal sequences": {"causal": True, "sequences": True},
}


def drawn(rng, shape):
    return tf.constant(rng.integers(-(2**31), 2**31, shape), "int32")


def case(kind, heads, rng, hidden_row=True):
    """Queries, keys and values, what is visible, and drops; in a row no key is, or all are."""
    settings = KINDS[kind]
    source = settings.get("source", T)
    q, k, v = (
        tf.constant(rng.standard_normal((B, heads, D, size)), "float32")
        for size in (T, source, source)
    )
    mask = rng.random((B, source)) > 0.3
    mask[:, 0] = True  # a query that sees no key at all has no defined value
    sequences = None
    if settings.get("sequences"):
        mask[:] = True
        sequences = tf.constant(np.sort(rng.integers(0, 3, (B, T)), 1), "int32")
    else:
        mask[1] = kind == "causal" or not hidden_row
    visible = Visible(tf.constant(mask), sequences, settings.get("causal", False))
    return (q, k, v), visible, Drops(drawn(rng, (B, -(-heads // 2), T)), drawn(rng, source), 20000)


def arrays_of(form, kind, arrays):
    """What a form takes of queries, keys and values `[B, N, D, T]`."""
    if form.columns:
        return arrays
    q, k, v = (tf.transpose(x, (0, 3, 1, 2))[:, :, None] for x in arrays)
    return [q, tf.concat([k, v], 2)] if kind == "cross" else [tf.concat([q, k, v], 2)]


def by_form(form, kind, arrays, visible, drops, upstream):
    """The output `[B, N, D, T]` of a form on TensorFlow, and its gradients."""

    def attended():
        y = form.attend(arrays_of(form, kind, arrays), visible, drops)
        return y if form.columns else tf.transpose(y, (0, 2, 3, 1))

    y, found = gradients(attended, arrays, upstream)
    return [y, *found]


def by_kernels(kind, arrays, visible, drops, upstream):
    """The same of the kernels of a GPU, which are JAX's, run in Python."""

    def on_jax(x):
        return None if x is None else jnp.asarray(x.numpy())

    seen = Visible(on_jax(visible.mask), on_jax(visible.sequences), visible.causal)
    dropping = drops and Drops(on_jax(drops.rows), on_jax(drops.columns), drops.dropped)

    @jax.jit
    def run(arrays, upstream):
        def attended(arrays):
            q, k, v = (jnp.transpose(x, (0, 3, 1, 2))[:, :, None] for x in arrays)
            parts = (q, jnp.concatenate([k, v], 2)) if kind == "cross" else None
            parts = parts or (jnp.concatenate([q, k, v], 2),)
            return jnp.transpose(
                fused_attention(parts, seen, dropping, interpret=True), (0, 2, 3, 1)
            )

        y, gradient = jax.vjp(attended, arrays)
        return [y, *gradient(upstream)[0]]

    return run([on_jax(x) for x in arrays], on_jax(upstream))


@pytest.mark.slow
@pytest.mark.parametrize("kind, heads", zip(KINDS, (3, 4, 3, 4), strict=True))
@pytest.mark.parametrize("dropped", [False, True], ids=["whole", "dropped"])
def test_all_forms_are_one(kind, heads, dropped, monkeypatch):
    """The formula, blocks of several sizes, the backend's own function, the kernels of a GPU."""
    arrays, visible, drops = case(kind, heads, np.random.default_rng(heads), hidden_row=False)
    drops = drops if dropped else None
    given = kind, arrays, visible, drops, tf.random.stateless_normal(arrays[0].shape, (1, 2))
    expected = by_form(attention.PLAIN, *given)
    found = {"kernels": by_kernels(*given)}
    if not dropped:
        found["library"] = by_form(attention.LIBRARY, *given)
    # Whole, by rows, by queries written out, by queries in a loop.
    for blocks in (Blocks(B, T), Blocks(2, T), Blocks(1, 8), Blocks(2, 1)):
        monkeypatch.setattr(attention, "blocks_of", lambda *_, at=blocks: at)
        found[str(blocks)] = by_form(attention.BLOCKS, *given)
    assert {form for _, form, _ in attention.CHOICES} <= {
        attention.BLOCKS, attention.LIBRARY, attention.FUSED,
    }  # fmt: skip
    for name, outputs in found.items():
        for a, b in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("kind, heads", [("self", 3), ("causal sequences", 4)])
def test_blocks_in_a_program_of_xla(kind, heads, monkeypatch):
    """And rows in which no key is visible, as they are padded."""
    arrays, visible, drops = case(kind, heads, np.random.default_rng(heads))
    upstream = tf.random.stateless_normal(arrays[0].shape, (1, 2))
    expected = by_form(attention.PLAIN, kind, arrays, visible, drops, upstream)
    for blocks in (Blocks(B, T), Blocks(2, 1)):
        monkeypatch.setattr(attention, "blocks_of", lambda *_, at=blocks: at)

        @tf.function(jit_compile=True, autograph=False)
        def run(arrays, upstream):
            return by_form(attention.BLOCKS, kind, arrays, visible, drops, upstream)

        found = run(arrays, upstream)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5, err_msg=str(blocks))


def test_blocks_have_at_most_as_many_scores():
    assert blocks_of(32, 12, 512, 512, 2**22) == Blocks(1, 512)
    assert blocks_of(32, 12, 128, 128, 2**22) == Blocks(16, 128)
    assert blocks_of(30, 12, 128, 128, 2**22) == Blocks(15, 128)  # a divisor of the rows
    assert blocks_of(None, 4, 64, 64, 2**22) == Blocks(1, 64)
    for length in (1000, 4096, 100_000):
        blocks = blocks_of(2, 12, length, length, 2**22)
        assert blocks.rows == 1 and blocks.queries % 8 == 0
        assert 12 * blocks.queries * length <= max(2**22, 8 * 12 * length)


@pytest.fixture
def small_blocks(monkeypatch):
    """Attention is cut at sizes of a test."""

    def cut(most):
        monkeypatch.setattr(attention, "_BLOCK", most)
        monkeypatch.setattr(attention, "CHOICES", (("cpu", attention.BLOCKS, most),))

    return cut


@pytest.mark.slow
@pytest.mark.parametrize("most", [2 * T * T, 2 * T * 3], ids=["rows", "queries"])
@pytest.mark.parametrize("context", [False, True])
def test_a_layer_trains_the_same_way_in_blocks(most, context, small_blocks):
    rng = np.random.default_rng(5)
    matrices = ("query", "key", "value", "attention_output")
    layer = MultiHeadAttention(2, 0.3, causal=not context, low_rank=LowRank(2, matrices))
    x = tf.constant(rng.standard_normal((B, T, 8)), "float32")
    y = tf.constant(rng.standard_normal((B, 9, 6)), "float32") if context else None
    mask = rng.random((B, 9 if context else T)) > 0.3
    mask[:, 0] = True
    layer.build(x.shape, *([y.shape] if context else []))
    for dense, _ in layer.projections():
        randomize(dense.update, rng)
    seed = layer.probability_dropout.seed_generator

    def run():
        seed.state.assign([7, 9])
        out, found = gradients(
            lambda: layer(x, context=y, mask=mask, training=True) * tf.range(8.0),
            [x, *layer.trainable_variables],
        )
        return [out, *found]

    whole = run()
    small_blocks(most)
    assert B * 2 * T * (9 if context else T) > most
    for a, b in zip(run(), whole, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4, rtol=2e-5)


@pytest.mark.slow
def test_memory_grows_with_the_length_and_not_with_its_square():
    """The largest array of a compiled step of twice the length is twice as large."""

    def largest(length):
        block = TransformerBlock(2, 32, attention_dropout=0.1)
        block.build((1, length, 16))

        def step(x):
            return gradients(lambda: block(x, training=True), [x])[1]

        compiled = tf.function(step, jit_compile=True, autograph=False)
        text = compiled.experimental_get_compiler_ir(tf.TensorSpec((1, length, 16)))(
            stage="optimized_hlo"
        )
        shapes = [s.split("]")[0].split(",") for s in text.split("f32[")[1:]]
        return max(int(np.prod([int(n) for n in s if n])) for s in shapes)

    most = attention._BLOCK
    assert largest(8192) <= most + 8192 * 16 and largest(16384) <= most + 16384 * 32
    assert attention.form_of("cpu", 2 * 8192 * 8192) is attention.BLOCKS
