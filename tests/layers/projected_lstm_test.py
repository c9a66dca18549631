import numpy as np
import pytest
import tensorflow as tf

from tests.layers.reference import randomize, sigmoid
from tfnlp.layers import ProjectedLSTM
from tfnlp.layers.kernels.backend import traced_for_tpu

B, T, U, P = 3, 6, 5, 4
MASK = np.array([[1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 0], [1, 0, 0, 0, 0, 0]], bool)  # with holes
RESETS = np.array([[0, 0, 1, 0, 1, 0], [1, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]], bool)
BITING = {"cell_clip": 0.6, "projection_clip": 0.3}
FREE = {"cell_clip": None, "projection_clip": None}

# What a call is given besides the inputs.
OTHERS = {
    "alone": {},
    "mask": {"mask": MASK},
    "state": {"initial_state": True},
    "resets": {"resets": RESETS, "initial_state": True},
    "everything": {"mask": MASK, "initial_state": True, "resets": RESETS},
}


def reference(x, layer, mask=None, initial_state=None, resets=None):
    """One token of one row after the other; outputs, state, and how often each clip was reached."""
    kernel, recurrent, bias, projection = (
        np.asarray(w, "float64")
        for w in (layer.kernel, layer.recurrent_kernel, layer.bias, layer.projection_kernel)
    )
    units, size = projection.shape
    outputs, states, clipped = np.zeros((*x.shape[:2], size)), [], np.zeros(2, int)
    for b, row in enumerate(x):
        c, h = np.zeros(units), np.zeros(size)
        if initial_state is not None:
            c, h = initial_state[b, :units], initial_state[b, units:]
        for t, token in enumerate(row):
            if resets is not None and resets[b, t]:
                c, h = np.zeros(units), np.zeros(size)
            if mask is not None and not mask[b, t]:
                continue
            i, j, f, o = np.split(token @ kernel + h @ recurrent + bias, 4)
            c = sigmoid(f + layer.forget_bias) * c + sigmoid(i) * np.tanh(j)
            if layer.cell_clip is not None:
                clipped[0] += (np.abs(c) > layer.cell_clip).sum()
                c = np.clip(c, -layer.cell_clip, layer.cell_clip)
            h = (sigmoid(o) * np.tanh(c)) @ projection
            if layer.projection_clip is not None:
                clipped[1] += (np.abs(h) > layer.projection_clip).sum()
                h = np.clip(h, -layer.projection_clip, layer.projection_clip)
            outputs[b, t] = h + token if layer.residual else h
        states.append(np.concatenate([c, h]))
    return outputs, np.array(states), clipped


def make(rng, size=P, **arguments):
    layer = ProjectedLSTM(U, P, **{**BITING, **arguments})
    layer.build((None, None, size))
    randomize(layer, rng, 0.8)
    return layer


def case(others, size=P, seed=0):
    """Inputs, and the other arguments with numbers in place of True."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((B, T, size)).astype("float32")
    others = dict(others)
    if "initial_state" in others:
        others["initial_state"] = rng.uniform(-0.3, 0.3, (B, U + P)).astype("float32")
    return rng, x, others


@pytest.mark.parametrize(
    "others, size, arguments",
    [
        ("alone", 3, {"forget_bias": 0.3}),
        ("mask", P, {**FREE, "residual": True}),
        ("state", 6, {"projection_clip": None}),
        ("resets", P, {}),
        ("everything", P, {"residual": True}),
    ],
)
def test_formula(others, size, arguments):
    rng, x, others = case(OTHERS[others], size)
    layer = make(rng, size, **arguments)
    expected, expected_state, clipped = reference(x.astype("float64"), layer, **others)
    for training in (False, True):
        outputs, state = layer(x, training=training, **others)
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(state, expected_state, rtol=1e-5, atol=2e-6)
    bounds = np.array([layer.cell_clip is not None, layer.projection_clip is not None])
    np.testing.assert_array_equal(clipped > 0, bounds)  # or the test says nothing of clips


def gradients_of(layer, x, others, cotangents, training):
    """Values and the gradients of a weighted sum by inputs, state and weights."""
    x = tf.constant(x)
    others = {name: tf.constant(value) for name, value in others.items()}
    sources = [x] + [others[n] for n in ("initial_state",) if n in others]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        outputs, state = layer(x, training=training, **others)
        loss = tf.reduce_sum(outputs * cotangents[0]) + tf.reduce_sum(state * cotangents[1])
    variables = [w.value for w in layer.trainable_variables]
    return (outputs, state), tape.gradient(loss, sources + variables)


def unrolled(function):
    """A graph as for a TPU, without loops."""

    def traced():
        with traced_for_tpu():
            return function()

    graph = tf.function(traced)
    operations = {op.type for op in graph.get_concrete_function().graph.get_operations()}
    assert not operations & {"While", "StatelessWhile"}
    return graph


WAYS = {
    "eager": lambda f: f,
    "graph": tf.function,
    "xla": lambda f: tf.function(f, jit_compile=True),
    "unrolled": unrolled,
}


@pytest.mark.parametrize(
    "way, others, arguments",
    [
        ("eager", "alone", FREE),
        ("eager", "mask", {"residual": True}),
        ("graph", "resets", {}),
        ("xla", "everything", {"residual": True}),
        ("unrolled", "everything", {"residual": True}),
    ],
)
def test_the_written_gradient_equals_the_derived_one(way, others, arguments):
    rng, x, others = case(OTHERS[others])
    layer = make(rng, **arguments)
    cotangents = [rng.standard_normal(s).astype("float32") for s in ((B, T, P), (B, U + P))]
    values, gradients = gradients_of(layer, x, others, cotangents, training=False)
    run = WAYS[way](lambda: gradients_of(layer, x, others, cotangents, training=True))
    got_values, got_gradients = run()
    for got, expected in zip(got_values, values, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert len(gradients) == 5 + ("initial_state" in others)
    for got, expected in zip(got_gradients, gradients, strict=True):
        assert np.abs(expected).max() > 1e-2
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("others", [OTHERS["alone"], OTHERS["everything"]], ids=["alone", "all"])
def test_without_projection(others):
    """As a projection by the identity matrix, and the written gradient as the derived one."""
    rng, x, _ = case({})
    layer = ProjectedLSTM(U, None, cell_clip=0.6, projection_clip=0.3)
    layer.build((None, None, P))
    randomize(layer, rng, 0.8)
    assert len(layer.weights) == 3
    projected = ProjectedLSTM(U, U, cell_clip=0.6, projection_clip=0.3)
    projected.build((None, None, P))
    projected.set_weights([*layer.get_weights(), np.eye(U)])
    others = dict(others)
    if "initial_state" in others:
        others["initial_state"] = rng.uniform(-0.3, 0.3, (B, 2 * U)).astype("float32")
    cotangents = [rng.standard_normal(s).astype("float32") for s in ((B, T, U), (B, 2 * U))]
    want, want_gradients = gradients_of(projected, x, others, cotangents, training=False)
    del want_gradients[-1]  # of the projection
    for training in (False, True):
        got, gradients = gradients_of(layer, x, others, cotangents, training)
        for g, w in zip([*got, *gradients], [*want, *want_gradients], strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
