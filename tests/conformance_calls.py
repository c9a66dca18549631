"""How the layers of the conformance table are made and called, under any backend of Keras."""

import inspect

import keras
import numpy as np

from tests.conformance_row import B
from tests.layers.reference import randomize


def rng_of(row):
    """A generator for a row, the same each time it is asked for."""
    return np.random.default_rng(sum(row.name.encode()))


def built(row, rng, **kwargs):
    """A layer with random weights, and inputs for it; the weights depend on `rng` alone."""
    layer, inputs = row.make(**kwargs), row.draw(rng)
    build(row, layer)
    randomize(layer, rng)
    return layer, inputs


def build(row, layer):
    """`layer.build` with the shapes of the inputs that it asks for by name."""
    wanted = inspect.signature(layer.build).parameters
    first, others = row.split({name: spec.shape for name, spec in row.inputs.items()})
    named = {f"{n}_shape": shape for n, shape in others.items() if f"{n}_shape" in wanted}
    layer.build(first, **named)


def functional(row, layer, unknown_time):
    """A functional model around the layer: any batch size and, if asked, any length."""
    shapes = {name: list(spec.shape) for name, spec in row.inputs.items()}
    if unknown_time:
        for name, axis in row.time.items():
            shapes[name][axis] = None
    inputs = {
        name: keras.Input(shapes[name][1:], dtype=spec.dtype, name=name)
        for name, spec in row.inputs.items()
    }
    return keras.Model(inputs, row.call(layer, inputs))


def cotangents(outputs, rng):
    """Random numbers to weigh outputs with, one set for each example (`[1, ...]` is shared)."""
    return [rng.standard_normal((B, *y.shape[1:])).astype("float32") for y in outputs]


def lengthened(row, inputs, rng):
    """Inputs with other numbers in the padding and two more steps of it, and what is real.

    Returns the real places `[B, T]` of `inputs`, the inputs with other padding, those that are
    longer too, and the real places of the latter.
    """
    axes = {name: row.time[name] for name in row.padded}
    some, axis = next(iter(axes.items()))
    real = inputs.get(row.mask, np.ones((B, inputs[some].shape[axis]), bool))

    def along(array, flags, axis):  # [B, T] flags beside `[B, ..., T, ...]`
        shape = [1] * array.ndim
        shape[0], shape[axis] = flags.shape
        return flags.reshape(shape)

    noise = row.draw(rng)
    other = dict(inputs)
    for name, axis in axes.items():
        other[name] = np.where(along(inputs[name], real, axis), inputs[name], noise[name])
    longer = dict(other)
    for name, axis in axes.items():
        tail = np.take(noise[name], [0, 1], axis=axis)
        longer[name] = np.concatenate([other[name], tail], axis=axis)
    for name in {row.mask, "resets"} & set(inputs):
        longer[name] = np.pad(inputs[name], [(0, 0), (0, 2)])
    return real, other, longer, np.pad(real, [(0, 0), (0, 2)])


def arrays(outputs):
    """Outputs as float32 arrays."""
    return [np.asarray(y).astype("float32") for y in outputs]
