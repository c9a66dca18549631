"""What the rows of the conformance table compute under the backend of Keras, as numpy arrays.

One process has one backend: `conformance_jax_test.py` computes these values itself and has them
computed by a second process, `python -m tests.conformance_values FILE ROWS`, under JAX.
"""

import contextlib
import sys
import traceback
from unittest import mock

import keras
import numpy as np

from tests.conformance_calls import arrays, built, cotangents, rng_of
from tests.conformance_table import DRAWING, ROWS, UNWEIGHTED

# Rows whose layers the other backend computes too.
COMPARED = [*ROWS, *UNWEIGHTED, *DRAWING]


@contextlib.contextmanager
def same_draws(row):
    """Random layers draw numpy's numbers in this block: each backend has a generator of its own."""
    rng = rng_of(row)

    def randint(shape, minval, maxval, dtype="int32", seed=None):
        return keras.ops.convert_to_tensor(rng.integers(minval, maxval, shape, dtype), dtype)

    def uniform(shape, minval=0.0, maxval=1.0, dtype="float32", seed=None):
        return keras.ops.convert_to_tensor(rng.uniform(minval, maxval, shape), dtype)

    with mock.patch.multiple(keras.random, randint=randint, uniform=uniform):
        yield


def weighed(outputs, weights):
    """The sum of outputs times numbers, of those that are not whole numbers."""
    return sum(
        keras.ops.sum(keras.ops.cast(y, "float32") * c)
        for y, c in zip(outputs, weights, strict=True)
        if "int" not in keras.backend.standardize_dtype(y.dtype)
    )


def differentiated(row, layer, inputs, weights, compiled=False):
    """The outputs, and the gradients by name of their weighed sum: of weights and real inputs."""
    of_jax = keras.backend.backend() == "jax"
    function = _in_jax if of_jax else _in_tensorflow
    variables = layer.trainable_variables if row.gradient else []
    real = [name for name, x in inputs.items() if x.dtype == "float32"] if row.gradient else []
    with same_draws(row):
        outputs, gradients = function(row, layer, variables, real, inputs, weights, compiled)
    names = [*(v.path.split("/", 1)[1] for v in variables), *(f"of {name}" for name in real)]
    return arrays(outputs), dict(zip(names, gradients, strict=True))


def _in_jax(row, layer, variables, real, inputs, weights, compiled):
    import jax

    def loss(values, of_inputs, inputs):
        pairs = list(zip(variables, values, strict=True))
        given = {name: {**inputs, **of_inputs}[name] for name in row.inputs}  # JAX sorts names
        with keras.StatelessScope(state_mapping=pairs):
            outputs = row.call(layer, given)
        return weighed(outputs, weights), outputs

    def run(values, inputs):
        of_inputs = {name: inputs[name] for name in real}
        if not row.gradient:
            return loss(values, of_inputs, inputs)[1], ()
        found = jax.grad(loss, (0, 1), has_aux=True)(values, of_inputs, inputs)
        (of_weights, of_inputs), outputs = found
        return outputs, (*of_weights, *(of_inputs[name] for name in real))

    run = jax.jit(run) if compiled else run
    outputs, gradients = run([v.value for v in variables], inputs)
    return outputs, [np.asarray(g) for g in gradients]


def _in_tensorflow(row, layer, variables, real, inputs, weights, compiled):
    import tensorflow as tf

    inputs = {name: tf.constant(x) for name, x in inputs.items()}
    sources = [*(v.value for v in variables), *(inputs[name] for name in real)]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        outputs = row.call(layer, inputs)
        loss = weighed(outputs, weights)
    gradients = tape.gradient(loss, sources, unconnected_gradients="zero") if sources else []
    return outputs, [tf.convert_to_tensor(g).numpy() for g in gradients]


def main(path, *names):
    """Write the values of the rows of these names, and the traceback of each row that fails."""
    found = {}
    for row in (row for row in COMPARED if row.name in names):
        try:
            values = jax_values(row)
        except Exception:
            values = {"error": np.array(traceback.format_exc())}
        found.update({f"{row.name}|{name}": value for name, value in values.items()})
    np.savez(path, **found)


def jax_values(row):
    """What one row computes under JAX: `name/index` or `name/PATH` to array."""
    rng = rng_of(row)
    layer, inputs = built(row, rng)
    with same_draws(row):
        outputs = arrays(row.call(layer, inputs))
    weights = cotangents(outputs, rng)
    found = {}

    def keep(name, values):
        values = values if isinstance(values, dict) else dict(enumerate(values))
        found.update({f"{name}/{key}": np.asarray(value) for key, value in values.items()})

    keep("eager", outputs)
    compiled, gradients = differentiated(row, layer, inputs, weights, compiled=True)
    keep("compiled", compiled)
    keep("gradient", gradients)

    half, _ = built(row, rng_of(row), dtype="mixed_bfloat16")
    with same_draws(row):
        outputs = row.call(half, inputs)
    keep("bf16", arrays(outputs))
    keep("bf16 dtype", [keras.backend.standardize_dtype(y.dtype) for y in outputs])
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
