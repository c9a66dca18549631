import numpy as np
import pytest
import tensorflow as tf

from tests.layers.gradients import gradients
from tests.layers.reference import built, sigmoid
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


def case(others, size=P, **arguments):
    """A layer, inputs, and the other arguments with numbers in place of True."""
    layer = ProjectedLSTM(U, P, **{**BITING, **arguments})
    layer, rng = built(layer, (None, None, size), scale=0.8)
    x = rng.standard_normal((B, T, size)).astype("float32")
    others = dict(others)
    if "initial_state" in others:
        others["initial_state"] = rng.uniform(-0.3, 0.3, (B, U + P)).astype("float32")
    return layer, x, others


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
    layer, x, others = case(OTHERS[others], size, **arguments)
    expected, expected_state, clipped = reference(x.astype("float64"), layer, **others)
    for training in (False, True):
        outputs, state = layer(x, training=training, **others)
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(state, expected_state, rtol=1e-5, atol=2e-6)
    bounds = np.array([layer.cell_clip is not None, layer.projection_clip is not None])
    np.testing.assert_array_equal(clipped > 0, bounds)  # or the test says nothing of clips


def test_a_graph_for_a_tpu_has_no_loop():
    layer, x, _ = case({})

    @tf.function
    def step():
        with traced_for_tpu():
            return gradients(lambda: layer(x, training=True)[0], [layer.kernel])

    operations = {op.type for op in step.get_concrete_function().graph.get_operations()}
    assert not operations & {"While", "StatelessWhile"}
