"""Outputs of a Keras model under JAX, compiled."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np


def forward(
    model: keras.Model, names: Iterable[str]
) -> Callable[[Mapping[str, Any]], dict[str, np.ndarray]]:
    """Return a function of a batch that returns outputs of `model` without dropout.

    It is compiled once for each shape of a batch, and uses the weights at the time of each call.

    Args:
        model: a Keras model whose inputs and outputs are dicts; an output may be a list.
        names: outputs that are wanted.
    """
    import jax

    names = list(names)

    @jax.jit
    def run(weights: list[Any], others: list[Any], batch: dict[str, Any]) -> dict[str, Any]:
        outputs, _ = model.stateless_call(weights, others, batch, training=False)
        return {name: outputs[name] for name in names}

    def call(batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
        weights = [v.value for v in model.trainable_variables]
        others = [v.value for v in model.non_trainable_variables]
        inputs = {name: np.asarray(batch[name]) for name in model.input}
        return jax.tree.map(np.asarray, run(weights, others, inputs))

    return call
