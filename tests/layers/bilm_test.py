import numpy as np
import pytest

from tests.layers.projected_lstm_test import reference as lstm
from tests.layers.reference import built
from tfnlp.layers import BiLM, SentenceBoundaries

B, T, L, U, P = 3, 6, 2, 5, 4
# Padding at the end, at the start, and in the middle.
MASK = np.array([[1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1], [1, 1, 0, 0, 1, 0]], bool)
RESETS = np.array([[0, 0, 1, 0, 1, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]], bool)


def case(**arguments):
    """A layer, the generator, and inputs and states of it."""
    arguments = {"cell_clip": 0.6, "projection_clip": 0.4, "dropout": 0.0, **arguments}
    layer, rng = built(BiLM(L, U, P, **arguments), (None, None, P), scale=0.8)
    x = rng.standard_normal((B, T, P)).astype("float32")
    return layer, rng, x, rng.uniform(-0.3, 0.3, (B, 2 * L, U + P)).astype("float32")


def stack(lstms, x, state=None, resets=None):
    """One direction over one row without padding: outputs of each layer, and the states."""
    outputs, states = [], []
    for index, layer in enumerate(lstms):
        assert layer.residual == (index > 0 and lstms[-1].residual)
        before = None if state is None else state[index][None]
        y, after, _ = lstm(x[None], layer, None, before, None if resets is None else resets[None])
        x = y[0]
        outputs.append(x)
        states.append(after[0])
    return outputs, states


def reference(layer, x, mask=None, state=None):
    """Row by row, over the real tokens alone, in their order and in the opposite one."""
    layers, states = np.zeros((L, B, T, 2 * P)), np.zeros((B, 2 * L, U + P))
    for b in range(B):
        real = np.flatnonzero(np.ones(T) if mask is None else mask[b])
        tokens = x[b, real].astype("float64")
        rows = [None, None] if state is None else [state[b, 0::2], state[b, 1::2]]
        forward, states[b, 0::2] = stack(layer.forward_lstms, tokens, rows[0])
        backward, states[b, 1::2] = stack(layer.backward_lstms, tokens[::-1], rows[1])
        for index in range(L):
            layers[index, b, real, :P] = forward[index]
            layers[index, b, real, P:] = backward[index][::-1]
    return layers, states


def check(got, expected):
    layers, state = got
    assert isinstance(layers, list) and len(layers) == L
    np.testing.assert_allclose(np.array(layers), expected[0], rtol=1e-5, atol=5e-6)
    np.testing.assert_allclose(state, expected[1], rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize(
    "mask, carried, residual",
    [(None, False, True), (None, True, False), (MASK, True, True), (MASK, False, False)],
)
def test_each_direction_reads_the_real_tokens(mask, carried, residual):
    layer, _, x, state = case(residual=residual)
    state = state if carried else None
    expected = reference(layer, x, mask, state)
    check(layer(x, mask=mask, initial_state=state), expected)
    check(layer(x, mask=mask, initial_state=state, training=True), expected)  # no dropout here


@pytest.mark.parametrize("resets, training", [(None, False), (RESETS, True)])
def test_backward_inputs_are_in_the_order_of_reading(resets, training):
    layer, rng, x, state = case()
    backward = rng.standard_normal((B, T, P)).astype("float32")
    layers, states = np.zeros((L, B, T, 2 * P)), np.zeros((B, 2 * L, U + P))
    for b in range(B):
        at = None if resets is None else resets[b]
        for side, (lstms, tokens) in enumerate(
            ((layer.forward_lstms, x), (layer.backward_lstms, backward))
        ):
            outputs, states[b, side::2] = stack(
                lstms, tokens[b].astype("float64"), state[b, side::2], at
            )
            layers[:, b, :, side * P : (side + 1) * P] = outputs
    got = layer(x, initial_state=state, backward_inputs=backward, resets=resets, training=training)
    check(got, (layers, states))


def test_dropout_is_in_front_of_each_lstm_and_only_while_training():
    layer, _, x, _ = case(dropout=0.5)
    check(layer(x), reference(layer, x))
    one, two = (np.array(layer(x, training=True)[0]) for _ in range(2))
    for side in (slice(0, P), slice(P, 2 * P)):  # the second layer has a mask of its own
        assert (one[0, ..., side] != two[0, ..., side]).any()
    assert len({d.name for d in layer.dropouts}) == 2 * L
    # With the first layer's input gone in both, layer 1 is the same; layer 2 drops what it reads.
    one, two = (np.array(layer(np.zeros_like(x), training=True)[0]) for _ in range(2))
    np.testing.assert_array_equal(one[0], two[0])
    for side in (slice(0, P), slice(P, 2 * P)):
        assert (one[1, ..., side] != two[1, ..., side]).any()


BEGIN, END = [7, 8, 9], [7, 5, 9]
C = 3


def with_marks(ids):
    """Row by row, as lists; tokens count up to the last one whose first id is not 0."""
    found = []
    for row in ids.tolist():
        real = [t for t, token in enumerate(row) if token[0]]
        length = real[-1] + 1 if real else 0
        rest = [[0] * C] * (len(row) - length)
        found.append([BEGIN, *row[:length], END, *rest])
    return np.array(found, "int32")


def sentences(lengths, time, seed=0):
    ids = np.random.default_rng(seed).integers(1, 7, (len(lengths), time, C)).astype("int32")
    for row, length in zip(ids, lengths, strict=True):
        row[length:] = 0
    return ids


CASES = {
    "ragged": sentences([4, 1, 2, 3], 4),
    "rows of zero words": sentences([0, 2, 0], 3),
    "no places": np.zeros((3, 0, C), "int32"),
}


@pytest.mark.parametrize("ids", CASES.values(), ids=CASES)
def test_marks_against_lists(ids):
    expected = with_marks(ids)
    got = SentenceBoundaries(BEGIN, END)(ids)
    assert got.dtype == "int32" and got.shape == (ids.shape[0], ids.shape[1] + 2, C)
    np.testing.assert_array_equal(got, expected)


def test_a_hole_is_kept_and_only_the_first_id_decides():
    ids = np.array([[[1, 2, 3], [0, 0, 0], [4, 0, 0], [0, 5, 5]]], "int32")
    expected = [BEGIN, [1, 2, 3], [0, 0, 0], [4, 0, 0], END, [0, 0, 0]]
    np.testing.assert_array_equal(SentenceBoundaries(BEGIN, END)(ids)[0], expected)
