"""What `conformance_test.py` has to know of a layer: a `Row`."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np

# All different where they could mix up; T positions are there before padding.
B, T, H, V, N, F, M, C, P = 4, 5, 8, 11, 2, 12, 6, 6, 3


@dataclasses.dataclass(frozen=True)
class Array:
    """What one tensor argument of a call looks like.

    Integers are drawn below `limit`; of booleans one in `limit` is True, two in three if it is 0.
    """

    shape: tuple
    dtype: str = "float32"
    limit: int = 0

    def draw(self, rng):
        if self.dtype == "bool":  # other places in each row, never a whole row of one kind
            rows, columns = np.indices(self.shape)
            return (rows + columns) % self.limit == 1 if self.limit else (rows + columns) % 3 != 0
        if self.limit:
            return rng.integers(0, self.limit, self.shape).astype(self.dtype)
        return rng.standard_normal(self.shape).astype(self.dtype)


def at_real(outputs, real):
    """The default `Row.keep`: outputs `[B, T, ...]` at real positions."""
    return [y[real] for y in outputs]


def everything(outputs, real):
    """For outputs without a time axis: all of them."""
    return outputs


def scores_at_real(outputs, real):
    """For `[B, T, H]` and `[B, N, T, S]`: real queries, and their scores of real keys."""
    return [outputs[0][real]] + [
        scores[:, r][:, :, r] for scores, r in zip(outputs[1], real, strict=True)
    ]


def weights_at_real(outputs, real):
    """For attention `[B, T, K]`, its weights `[B, (N,) T, S]` and a state, if there is one: all
    queries, their weights of real keys."""
    weights = [w[..., r] for w, r in zip(outputs[1], real, strict=True)]
    return [outputs[0], *weights, *outputs[2:]]


def cache_at_real(outputs, real):
    """For `[B, T, H]` and a cache, twice `[B, N, M, D]`: all queries, the real slots."""
    return [outputs[0], *(np.moveaxis(cached, 2, 1)[real] for cached in outputs[1:])]


def all_but_the_last(outputs, real):
    """For outputs `[B, T, ...]` and a state that has read what follows, too: the outputs."""
    return at_real(outputs[:-1], real)


def state_too(outputs, real):
    """For outputs `[B, T, ...]` and a state that padding passes by: all real of it."""
    return [*all_but_the_last(outputs, real), outputs[-1]]


def first_positions(outputs, real):
    """For `[1, T, H]`, the same for all examples: the T positions that were there before."""
    return [outputs[0][:, :T]]


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer class, its arguments, and a call.

    `inputs` are the tensor arguments by name, `options` the other arguments of the call, `time`
    the axis that may have any length, by input name, `padded` the inputs that can be lengthened
    by padding (`mask` and `resets` are lengthened with them), `keep(outputs, real)` what padding
    must not change, `bf16` the dtypes of the outputs under a bf16 policy. `gradient` is False for
    decoding with a cache: TensorFlow has no gradient for the op that writes into one.
    `xla_gradient` is False where the gradient is TensorFlow's own of a loop: XLA compiles none of
    these. `listed` is how many of the first inputs are one argument, a list; 0: the first is a
    tensor. `mask` is the name of the mask of what is padded. `weights` is False for a layer that
    has none.
    """

    name: str
    layer: type
    args: dict
    inputs: dict
    options: dict = dataclasses.field(default_factory=dict)
    time: dict = dataclasses.field(default_factory=dict)
    padded: tuple = ("inputs",)
    keep: Callable = at_real
    bf16: tuple = ("bfloat16",)
    gradient: bool = True
    xla_gradient: bool = True
    listed: int = 0
    mask: str = "mask"
    weights: bool = True

    def make(self, **kwargs):
        return self.layer(**self.args, **kwargs)

    def draw(self, rng):
        return {name: spec.draw(rng) for name, spec in self.inputs.items()}

    def call(self, layer, inputs, **kwargs):
        """Calls the layer; always a list of outputs."""
        first, named = self.split(inputs)
        return keras.tree.flatten(layer(first, **named, **self.options, **kwargs))

    def split(self, values):
        """The values by input name as the first argument of a call, and the others by name."""
        count = self.listed or 1
        first, others = list(values)[:count], list(values)[count:]
        together = [values[name] for name in first] if self.listed else values[first[0]]
        return together, {name: values[name] for name in others}


# What many layers are called with.
tokens = {"inputs": Array((B, T, H))}
masked_tokens = {**tokens, "mask": Array((B, T), "bool")}
token_time = {"inputs": 1}
masked_time = {"inputs": 1, "mask": 1}
