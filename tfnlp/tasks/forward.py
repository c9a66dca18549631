"""Outputs of a Keras model without dropout, for batches of different shapes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

Forward = Callable[[Mapping[str, Any]], dict[str, Any]]


def is_compiled() -> bool:
    """Return whether `forward` compiles a program for each shape of a batch."""
    return keras.backend.backend() == "jax"


def forward(model: keras.Model, names: Iterable[str]) -> Forward:
    """Return a function of a batch that returns outputs of `model` as arrays.

    It uses the weights at the time of each call. TensorFlow traces it once, JAX compiles it once
    for each shape of a batch.

    Args:
        model: a Keras model whose inputs and outputs are dicts; an output may be a list.
        names: outputs that are wanted.
    """
    return (_in_jax if is_compiled() else _in_tensorflow)(model, list(names))


def _in_tensorflow(model: keras.Model, names: list[str]) -> Forward:
    # One graph serves all lengths.
    specs = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in model.input.items()}

    @tf.function(input_signature=[specs], autograph=False)
    def run(batch: dict[str, tf.Tensor]) -> dict[str, Any]:
        outputs = model(batch, training=False)
        return {name: outputs[name] for name in names}

    def call(batch: Mapping[str, Any]) -> dict[str, Any]:
        outputs = run({name: tf.convert_to_tensor(batch[name]) for name in specs})
        return tf.nest.map_structure(lambda x: x.numpy(), outputs)

    return call


def _in_jax(model: keras.Model, names: list[str]) -> Forward:
    import jax

    @jax.jit
    def run(weights: list[Any], others: list[Any], batch: dict[str, Any]) -> dict[str, Any]:
        outputs, _ = model.stateless_call(weights, others, batch, training=False)
        return {name: outputs[name] for name in names}

    def call(batch: Mapping[str, Any]) -> dict[str, Any]:
        weights = [v.value for v in model.trainable_variables]
        others = [v.value for v in model.non_trainable_variables]
        inputs = {name: np.asarray(batch[name]) for name in model.input}
        return jax.tree.map(np.asarray, run(weights, others, inputs))

    return call
