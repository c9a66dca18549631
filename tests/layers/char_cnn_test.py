import numpy as np
import pytest

from tests.layers.gradients import gradients
from tests.layers.reference import ACTIVATIONS, built, randomize, sigmoid
from tfnlp.layers import CharCNN, Highway
from tfnlp.layers.kernels.backend import traced_for_tpu

WIDTHS = ((1, 3), (2, 2), (3, 4), (4, 2), (5, 3), (6, 2), (7, 5))
V, E = 20, 3


def make(seed, filters=WIDTHS, **arguments):
    arguments = {"num_highway": 2, "projection_size": 6, **arguments}
    return built(CharCNN(V, E, filters, **arguments), (None, None, 12), seed=seed)


def array(weight):
    return np.asarray(weight, "float64")


def highway_reference(x, layer):
    gate = sigmoid(x @ array(layer.carry_kernel) + array(layer.carry_bias_weight))
    new = x @ array(layer.transform_kernel) + array(layer.transform_bias)
    return gate * ACTIVATIONS[layer.activation](new) + (1 - gate) * x


def reference(ids, layer):
    """One word after the other, f and the bias at every place as in the paper."""
    f = ACTIVATIONS[layer.activation]
    table = np.concatenate([np.zeros((1, E)), array(layer.character_embedding)])
    vectors = []
    for word in ids.reshape(-1, ids.shape[-1]):
        e, found = table[word], []
        for (width, number), kernel, bias in zip(
            layer.filters, layer.kernels, layer.biases, strict=True
        ):
            kernel, best = array(kernel), np.full(number, -np.inf)
            for t in range(len(word) - width + 1):
                score = sum(e[t + k] @ kernel[k] for k in range(width)) + array(bias)
                best = np.maximum(best, f(score))
            found.append(best)
        y = np.concatenate(found)
        for highway in layer.highways:
            y = highway_reference(y, highway)
        if layer.projection_size is not None:
            y = y @ array(layer.projection_kernel) + array(layer.projection_bias)
        vectors.append(y)
    return np.reshape(vectors, (*ids.shape[:-1], -1))


@pytest.mark.parametrize(
    "filters, arguments, shape",
    [
        (WIDTHS, {}, (2, 3, 50)),
        (WIDTHS, {"activation": "tanh"}, (4, 7)),  # the widest filter fits in once
        (((2, 3), (2, 4), (1, 2)), {"num_highway": 1}, (2, 2, 9)),  # a width twice, any order
        (((3, 4),), {"num_highway": 0, "projection_size": None}, (5, 6)),
        (((1, 3), (2, 3)), {"num_highway": 0}, (11,)),  # a single word
    ],
)
def test_formula(filters, arguments, shape):
    layer, rng = make(0, filters, **arguments)
    ids = rng.integers(0, V, shape).astype("int32")
    expected = reference(ids, layer)
    got = layer(ids)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=2e-5)


def words(rng, lengths, size):
    """Ids as of `tfnlp.text.character_ids`: a begin mark, characters, an end mark, padding."""
    ids = np.full((len(lengths), size), V - 1, "int32")
    for row, length in zip(ids, lengths, strict=True):
        row[0], row[1 : length - 1], row[length - 1] = 1, rng.integers(3, V - 1, length - 2), 2
    return ids


def test_padding_cut_to_the_widest_filter_gives_the_same_bits():
    layer, rng = make(1)
    # Where all it sees is padding the widest filter answers most; it must still have such a place.
    table = array(layer.character_embedding)
    table[V - 2] = 1
    layer.character_embedding.assign(table)
    layer.kernels[-1].assign(np.full(layer.kernels[-1].shape, 0.1))
    ids = words(rng, [3, 12, 5, 8], 50)
    ids[2] = 0  # a padding word
    whole = np.asarray(layer(ids))
    np.testing.assert_array_equal(layer(ids[:, : 12 + 7]), whole)
    assert not np.allclose(layer(ids[:, : 12 + 6]), whole)


def test_the_form_for_a_tpu_has_the_same_gradients():
    """Padded words have equal answers at many places: both forms give their characters the same."""
    layer, rng = make(5)
    ids = words(rng, [3, 4, 5, 12, 7], 12)
    upstream = rng.standard_normal((5, 6)).astype("float32")

    expected = gradients(lambda: layer(ids), layer.weights, upstream)
    with traced_for_tpu():
        got = gradients(lambda: layer(ids), layer.weights, upstream)
    for g, e in zip([got[0], *got[1]], [expected[0], *expected[1]], strict=True):
        assert np.abs(e).max() > 1e-2
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_highway_carries_most_of_its_input_at_first(activation):
    rng = np.random.default_rng(0)
    layer, x = Highway(activation), rng.standard_normal((3, 4, 5)).astype("float32")
    layer.build((None, 5))
    np.testing.assert_array_equal(layer.carry_bias_weight, np.full(5, -2, "float32"))
    randomize(layer, rng)
    np.testing.assert_allclose(layer(x), highway_reference(x, layer), rtol=1e-5, atol=1e-6)
