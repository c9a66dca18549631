"""Low-rank updates by their formula, alone and in the matrices of a Transformer block."""

import numpy as np
import pytest
from keras import ops

from tests.layers.reference import randomize
from tfnlp import layers
from tfnlp.layers import LowRank, LowRankUpdate

rng = np.random.default_rng(3)
X = rng.standard_normal((2, 5, 8)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], bool)
ALL = ("query", "key", "value", "attention_output", "intermediate", "output")


def reference(update, x):
    """One part after the other, in float64."""
    down, up = (np.asarray(v, "float64") for v in (update.down, update.up))
    found = np.zeros((*x.shape[:-1], update.count * update.units))
    for n, part in enumerate(update.parts):
        low = x @ down[:, n * update.rank : (n + 1) * update.rank]
        place = slice(part * update.units, (part + 1) * update.units)
        found[..., place] = low @ up[n] * update.alpha / update.rank
    return found


@pytest.mark.parametrize("count, parts", [(1, (0,)), (3, (0, 2)), (3, (1,)), (2, (0, 1))])
def test_formula(count, parts):
    update = LowRankUpdate(2, 6, count, parts, alpha=3.0)
    assert not np.any(update(X))  # nothing changes at first
    assert 0 < np.abs(update.down).max() <= 8**-0.5
    randomize(update, rng)
    want = reference(update, X.astype("float64"))
    np.testing.assert_allclose(update(X), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(X @ np.asarray(update.matrix()), want, rtol=1e-4, atol=1e-5)


def test_dropout_is_on_the_inputs_and_only_in_training():
    update = LowRankUpdate(8, 8, dropout=0.5)
    update.build((None, 8))
    update.down.assign(np.eye(8))
    update.up.assign(np.eye(8)[None] * 8)
    np.testing.assert_allclose(update(X), X, rtol=1e-6)
    y = np.asarray(update(X, training=True))
    kept = y != 0
    assert 0.2 < kept.mean() < 0.8
    np.testing.assert_allclose(y[kept], 2 * X[kept], rtol=1e-5)


def block(low_rank, **arguments):
    arguments = {"num_heads": 2, "intermediate_size": 12, **arguments}
    layer = layers.TransformerBlock(low_rank=low_rank, **arguments)
    layer(X, mask=MASK)
    randomize(layer, rng)
    return layer


@pytest.mark.parametrize("matrices", [*((name,) for name in ALL), ("query", "value"), ALL])
def test_a_block_is_one_with_other_kernels(matrices):
    changed = block(LowRank(2, matrices, alpha=5.0))
    plain = layers.TransformerBlock(2, 12)
    plain(X)
    kernels = {dense.kernel.path.split("/", 1)[1]: dense for dense, _ in changed.projections()}
    weights = {v.path.split("/", 1)[1]: v for v in changed.weights}
    touched = 0
    for variable in plain.weights:
        path = variable.path.split("/", 1)[1]
        value = np.asarray(weights[path])
        update = kernels[path].update if path in kernels else None
        if update is not None:
            value = value + reference(update, np.eye(len(value)))
            touched += len(update.parts)
        variable.assign(value)
    assert touched == len(matrices)
    want = plain(X, mask=MASK)
    np.testing.assert_allclose(changed(X, mask=MASK), want, rtol=1e-4, atol=1e-5)
    changed.merge_low_rank()
    assert [v.shape for v in changed.weights] == [v.shape for v in plain.weights]
    np.testing.assert_allclose(changed(X, mask=MASK), want, rtol=1e-4, atol=1e-5)


def test_cross_attention():
    inputs, context = ops.convert_to_tensor(X), ops.convert_to_tensor(X[:, :3, :6])
    layer = layers.MultiHeadAttention(2, low_rank=LowRank(2, ("key", "attention_output")))
    layer(inputs, context=context)
    randomize(layer, rng)
    assert layer.key_value.update.parts == [0] and layer.query.update is None
    want = np.asarray(layer(inputs, context=context))
    layer.merge_low_rank()
    np.testing.assert_allclose(layer(inputs, context=context), want, rtol=1e-4, atol=1e-5)
