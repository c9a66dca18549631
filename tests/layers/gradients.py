"""Values and gradients of layers, under any backend of Keras."""

import contextlib
from unittest import mock

import keras
import numpy as np

from tests.layers.rows import B


def gradients(function, sources, upstream=None):
    """What TensorFlow computes of a function without arguments, and its gradients.

    The sources are tensors or variables of Keras or TensorFlow.
    """
    import tensorflow as tf

    sources = [getattr(source, "value", source) for source in sources]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        outputs = function()
    return outputs, tape.gradient(outputs, sources, upstream)


def without_rows(gradients):
    """Gradients without those of rows alone."""
    import tensorflow as tf

    return [tf.convert_to_tensor(g) for g in gradients]


def arrays(outputs):
    """Outputs as float32 arrays."""
    flat = keras.tree.flatten(outputs)
    return [keras.ops.convert_to_numpy(keras.ops.cast(y, "float32")) for y in flat]


def tensors(inputs):
    return keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)


@contextlib.contextmanager
def same_draws(row):
    """Random layers draw numpy's numbers in this block: each backend has a generator of its own."""
    rng = row.rng()

    def randint(shape, minval, maxval, dtype="int32", seed=None):
        return keras.ops.convert_to_tensor(rng.integers(minval, maxval, shape, dtype), dtype)

    def uniform(shape, minval=0.0, maxval=1.0, dtype="float32", seed=None):
        return keras.ops.convert_to_tensor(rng.uniform(minval, maxval, shape), dtype)

    with mock.patch.multiple(keras.random, randint=randint, uniform=uniform):
        yield


def weighed(outputs, rng):
    """The sum of the outputs that are not whole numbers, times random numbers."""
    total = 0.0
    for y in outputs:
        weights = rng.standard_normal((B, *y.shape[1:])).astype("float32")
        if keras.backend.is_float_dtype(y.dtype):
            total += keras.ops.sum(keras.ops.cast(y, "float32") * weights)
    return total


def differentiated(row, layer, inputs, function=lambda f: f):
    """The outputs, and the gradients of `weighed` by name: of weights and of real inputs."""
    variables = layer.trainable_variables if row.gradient else []
    wanted = [n for n, x in inputs.items() if row.gradient and getattr(x, "dtype", 0) == "float32"]
    backend = {"tensorflow": in_tensorflow, "jax": in_jax, "torch": in_torch}
    with same_draws(row):
        if keras.backend.backend() in backend:
            run = backend[keras.backend.backend()]
            outputs, gradients = run(row, layer, variables, wanted, inputs, function)
        else:
            outputs, gradients, variables, wanted = row.call(layer, inputs), [], [], []
    names = [*(v.path.split("/", 1)[1] for v in variables), *(f"of {name}" for name in wanted)]
    return arrays(outputs), dict(zip(names, map(np.asarray, gradients), strict=True))


def in_tensorflow(row, layer, variables, wanted, inputs, function):
    import tensorflow as tf

    def run(inputs):
        sources = [*(v.value for v in variables), *(inputs[name] for name in wanted)]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            outputs = row.call(layer, inputs)
            loss = weighed(outputs, row.rng())
        found = tape.gradient(loss, sources, unconnected_gradients="zero") if sources else []
        return outputs, [tf.convert_to_tensor(g) for g in found]

    return function(run)(keras.tree.map_structure(tf.constant, inputs))


def in_jax(row, layer, variables, wanted, inputs, function):
    import jax

    def loss(values, of_inputs, inputs):
        pairs = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            outputs = row.call(layer, {**inputs, **of_inputs})
        return weighed(outputs, row.rng()), outputs

    def run(values, inputs):
        of_inputs = {name: inputs[name] for name in wanted}
        if not row.gradient:
            return loss(values, of_inputs, inputs)[1], []
        gradients, outputs = jax.grad(loss, (0, 1), has_aux=True)(values, of_inputs, inputs)
        return outputs, [*gradients[0], *(gradients[1][name] for name in wanted)]

    return jax.jit(run)([v.value for v in variables], inputs)


def in_torch(row, layer, variables, wanted, inputs, function):
    import torch

    given = tensors(inputs)
    sources = [*(v.value for v in variables), *(given[n].requires_grad_() for n in wanted)]
    outputs = row.call(layer, given)
    found = []
    if sources:
        loss = weighed(outputs, row.rng())
        found = torch.autograd.grad(loss, sources, allow_unused=True, materialize_grads=True)
    return [y.detach() for y in outputs], found
