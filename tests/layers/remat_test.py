"""Rematerialisation: the same numbers, computed again instead of kept."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import run_python
from tfnlp import layers
from tfnlp.layers import remat

B, T, S, H = 3, 6, 5, 8
RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((B, T, H)).astype("float32")
MASK = np.arange(T) < np.array([[6], [4], [1]])
CONTEXT = RANDOM.standard_normal((B, S, H)).astype("float32")
CONTEXT_MASK = np.arange(S) < np.array([[2], [5], [3]])
STATE = RANDOM.standard_normal((B, 4, 10 + H)).astype("float32")
WORDS = RANDOM.integers(0, 20, (B, T, 7)).astype("int32")


def block(**arguments):
    return layers.TransformerBlock(2, 16, dropout=0.3, attention_dropout=0.2, **arguments)


def bilm():
    return layers.BiLM(2, 10, H, dropout=0.3)


def characters():
    return layers.CharCNN(20, 4, ((1, 3), (3, 4)), num_highway=1, projection_size=H)


# A layer, its inputs, and how often its last product is computed: kept, with blocks, with full.
CASES = {
    "post-norm": (block, (X,), dict(mask=MASK), (1, 2, 3)),
    "pre-norm": (lambda: block(norm_first=True, causal=True), (X,), {}, (1, 2, 3)),
    "cross": (
        lambda: block(causal=True),
        (X, CONTEXT),
        dict(context_mask=CONTEXT_MASK, return_scores=True),
        (1, 2, 3),
    ),
    "packed": (block, (X,), dict(sequence_ids=np.cumsum(~MASK, 1)), (1, 2, 3)),
    "bilm": (bilm, (X, STATE), dict(mask=MASK), (1, 2, 2)),
    "characters": (characters, (WORDS,), {}, (1, 1, 2)),
}
SECOND = {"cross": "context", "bilm": "initial_state"}


def of_a_call(case, mode):
    """Outputs of two calls that share the weights, all gradients, and products by layer."""
    keras.utils.set_random_seed(2)
    make, arrays, more, _ = CASES[case]
    layer = make()
    more = {name: x if x is True else tf.constant(x) for name, x in more.items()}
    inputs = [tf.constant(x) for x in arrays]

    def call(training):
        named = {SECOND[case]: inputs[1]} if len(inputs) > 1 else {}
        return tf.nest.flatten(layer(inputs[0], training=training, **named, **more))

    call(training=False)  # makes the weights
    product = getattr(layer, "output_dense", None) or getattr(layer, "forward", [None])[-1]
    counted, calls = product or layer.highways[0], []
    kept_call = counted.call
    counted.call = lambda *a, **k: calls.append(1) or kept_call(*a, **k)
    weights = [v.value for v in layer.trainable_variables]
    floats = [x for x in inputs if x.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(floats)
        with remat.rematerialization(mode):
            outputs = [y for _ in range(2) for y in call(training=True)]
        random = np.random.default_rng(6)  # each number of the outputs has a weight of its own
        loss = sum(tf.reduce_sum(y * random.standard_normal(y.shape)) for y in outputs)
    gradients = tape.gradient(loss, [*floats, *weights])
    arrays = [*outputs, *(tf.convert_to_tensor(g) for g in gradients)]
    return [np.asarray(x) for x in arrays], len(calls) / 2


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow if case == "bilm" else ()) for case in CASES]
)
def test_the_same_numbers(case):
    wanted, calls = of_a_call(case, "none")
    counts = [calls]
    for mode in remat.REMAT[1:]:
        got, calls = of_a_call(case, mode)
        counts.append(calls)
        for a, b in zip(got, wanted, strict=True):
            assert np.abs(b).max() > 0
            # Gradients are sums, not always in the same order.
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * np.abs(b).max())
    assert tuple(counts) == CASES[case][-1]


def test_the_two_calls_have_other_masks():
    """What the test above would not see if both calls had the mask of the first."""
    arrays, _ = of_a_call("post-norm", "blocks")
    assert np.abs(arrays[0] - arrays[1]).max() > 0.1


def test_nothing_is_computed_again_without_training():
    layer = block()
    with remat.rematerialization("full"):
        outputs = layer(X)
    np.testing.assert_array_equal(outputs, layer(X))


_MEMORY = """
import jax
import keras
import numpy as np
from keras import ops

from tfnlp import layers

x = np.random.default_rng(0).standard_normal((8, 64, 64)).astype("float32")
blocks = [layers.TransformerBlock(2, 256) for _ in range(6)]
for block in blocks:
    block.build(x.shape)
variables = [v for block in blocks for v in block.trainable_variables]


def needed(mode):
    def loss(values, y):
        scope = keras.StatelessScope(state_mapping=list(zip(variables, values)))
        with scope, layers.rematerialization(mode):
            for block in blocks:
                y = block(y, training=True)
        return ops.sum(ops.sin(y))

    step = jax.jit(jax.grad(loss)).lower([v.value for v in variables], x).compile()
    return step.memory_analysis().temp_size_in_bytes


print(*(needed(mode) for mode in ("none", "blocks", "full")))
"""


@pytest.mark.long
def test_memory_on_jax():
    """Of six blocks the activations of one are there at a time, and the inputs of all."""
    found = run_python(_MEMORY, env={"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"})
    kept, blocks, full = (int(size) for size in found.stdout.split())
    assert blocks < 0.35 * kept and full < 0.9 * blocks, found.stdout
