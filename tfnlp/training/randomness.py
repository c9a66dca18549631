"""Dropout masks as a pure function of (seed, step, micro-batch, replica).

Keras has a seed variable in every dropout layer, increments it at each call, gives every replica
the same value and saves it in no checkpoint. Here the seeds of a step follow from its number, so
nothing needs to be saved and no two replicas share a mask.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

SEED_NAME = "seed_generator_state"


def seed_variables(model: keras.Model) -> list[keras.Variable]:
    """Return the seed variables of `model`'s layers, in the order of `model.variables`."""
    return [v for v in model.variables if v.name == SEED_NAME]


def step_seed(seed: int, step: Any, micro_batch: Any, replica: Any) -> tf.Tensor:
    """Return an int32 `[2]` seed for one micro-batch of one step on one replica."""
    root = tf.stack([tf.constant(seed, "int32"), tf.constant(0x5EED, "int32")])
    for value in (step, micro_batch, replica):
        root = tf.random.experimental.stateless_fold_in(root, tf.cast(value, "int32"))
    return root


@contextlib.contextmanager
def seeded(model: keras.Model, seed: tf.Tensor) -> Iterator[keras.StatelessScope]:
    """Make the random layers of `model` draw from `seed` (int32 `[2]`) in this block.

    Yields the Keras scope; its `losses` are those that layers pass to `add_loss` in the block.

    Other state that a layer assigns in the block (running averages, for example) is written back
    to its variable at the end.
    """
    variables = seed_variables(model)
    values = tf.random.stateless_uniform(
        (max(1, len(variables)), 2), seed, minval=0, maxval=2**31 - 1, dtype="int32"
    )
    mapping = [
        (v, tf.cast(value, v.dtype))
        for v, value in zip(variables, tf.unstack(values), strict=False)
    ]
    with keras.StatelessScope(state_mapping=mapping, collect_losses=True) as scope:
        yield scope
    drawn = {id(v) for v in variables}
    for variable in model.non_trainable_variables:
        if id(variable) not in drawn and scope.get_current_value(variable) is not None:
            variable.assign(scope.get_current_value(variable))
