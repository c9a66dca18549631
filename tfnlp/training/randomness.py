"""Dropout masks as a pure function of (seed, step, micro-batch, replica).

Keras has a seed variable in every dropout layer, increments it at each call, gives every replica
the same value and saves it in no checkpoint. Here the seeds of a step follow from its number, so
nothing needs to be saved and no two replicas share a mask.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras

from tfnlp.optional_tensorflow import tf

SEED_NAME = "seed_generator_state"


def seed_variables(model: keras.Model) -> list[keras.Variable]:
    """Return the seed variables of `model`'s layers, in the order of `model.variables`."""
    return [v for v in model.variables if v.name == SEED_NAME]


def without_seeds(variables: Iterable[keras.Variable]) -> list[keras.Variable]:
    """Return variables of a model, those of seeds left out."""
    return [v for v in variables if v.name != SEED_NAME]


def step_seed(seed: int, step: Any, micro_batch: Any, replica: Any) -> tf.Tensor:
    """Return an int32 `[2]` seed for one micro-batch of one step on one replica."""
    root = tf.stack([tf.constant(seed, "int32"), tf.constant(0x5EED, "int32")])
    for value in (step, micro_batch, replica):
        root = tf.random.experimental.stateless_fold_in(root, tf.cast(value, "int32"))
    return root


def layer_seeds(model: keras.Model, seed: tf.Tensor) -> list[tf.Tensor]:
    """Return a seed for each random layer of `model`, drawn from `seed` (int32 `[2]`)."""
    count = len(seed_variables(model))
    values = tf.random.stateless_uniform(
        (max(1, count), 2), seed, minval=0, maxval=2**31 - 1, dtype="int32"
    )
    return tf.unstack(values)[:count]


@contextlib.contextmanager
def seeded(
    model: keras.Model, seeds: Sequence[Any], values: Sequence[tuple[keras.Variable, Any]] = ()
) -> Iterator[keras.StatelessScope]:
    """Make the random layers of `model` draw from `seeds` in this block, int `[2]` each.

    Other variables have the `values` in place of their own.

    Yields:
        the Keras scope. Its `losses` are those that layers pass to `add_loss` in the block, and it
        has the values that they assign (running averages, for example), see `write_back`.
    """
    variables = zip(seed_variables(model), seeds, strict=True)
    mapping = [(v, keras.ops.cast(seed, v.dtype)) for v, seed in variables]
    with keras.StatelessScope(state_mapping=[*mapping, *values], collect_losses=True) as scope:
        yield scope


def write_back(model: keras.Model, scope: keras.StatelessScope) -> None:
    """Assign what the layers of `model` assigned in a scope of `seeded`, seeds left out."""
    for variable in without_seeds(model.non_trainable_variables):
        value = scope.get_current_value(variable)
        if value is not None:
            variable.assign(value)
