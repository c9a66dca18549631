"""Outputs of a model for all examples, in the examples' order."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.batches import TaskBatches
from tfnlp.tasks.forward import forward

# Outputs of the models of tasks, and whether they have a time axis.
Outputs = dict[str, np.ndarray | list[np.ndarray]]
_OUTPUTS = {
    "class_logits": False,
    "choice_logits": False,
    "score": False,
    "tag_logits": True,
    "start_logits": True,
    "end_logits": True,
}


def predict(
    model: keras.Model, batches: TaskBatches, names: Iterable[str] | None = None
) -> Outputs:
    """Return outputs of `model` without dropout, for all examples.

    Args:
        model: a Keras model whose inputs and outputs are dicts.
        batches: their batches must hold the model's inputs; nothing else in them is used.
        names: outputs that are wanted; None: those of `class_logits`, `choice_logits`, `score`,
            `tag_logits`, `start_logits` and `end_logits` that the model has.

    Returns:
        dict of output name to values in the order of the N examples: an array [N, ...]; or, of
        outputs with a time axis ([B, T] and [B, T, K], and others whose model leaves T open), a
        list of N arrays [T, ...], where T is the length that the example was padded to.

    Raises:
        ValueError: for an input that the batches lack, or an output that the model does not have.
    """
    return predictor(model, names)(batches)


def predictor(
    model: keras.Model, names: Iterable[str] | None = None
) -> Callable[[TaskBatches], Outputs]:
    """Return a function of batches that returns `predict(model, batches, names)`.

    TensorFlow traces it once for all calls with batches of one type, JAX once for each shape. It
    uses the weights at the time of each call.
    """
    if names is None:
        names = [name for name in _OUTPUTS if name in model.output]
    names = list(names)
    unknown = [name for name in names if name not in model.output]
    if unknown or not names:
        raise ValueError(f"outputs {unknown or names} are not among {sorted(model.output)}")
    timed = {name: _OUTPUTS.get(name, None in model.output[name].shape[1:]) for name in names}

    outputs_of = _in_jax if keras.backend.backend() == "jax" else _in_tensorflow
    next_outputs = outputs_of(model, names)

    def run(batches: TaskBatches) -> Outputs:
        dataset = batches.evaluation_batches()
        missing = sorted(set(model.input) - set(dataset.element_spec))
        if missing:
            raise ValueError(
                f"batches lack the model's inputs {missing}; they have "
                f"{sorted(dataset.element_spec)}"
            )
        plan, iterator = batches.evaluation_rows(), iter(dataset)
        found = {name: [None] * sum(real for _, real in plan) for name in names}
        for rows, real in plan:
            for name, values in next_outputs(iterator).items():
                for row, value in zip(rows[:real], np.asarray(values), strict=False):
                    found[name][row] = value
        return {name: values if timed[name] else np.stack(values) for name, values in found.items()}

    return run


def _in_tensorflow(model: keras.Model, names: list[str]) -> Callable[[Iterator], dict[str, Any]]:
    """Return a function of an iterator over batches that returns the outputs of the next one."""

    @tf.function(autograph=False)
    def next_outputs(iterator: Iterator) -> dict[str, tf.Tensor]:
        # The type of an iterator leaves lengths open, so that one graph serves all of them.
        batch = next(iterator)
        outputs = model({name: batch[name] for name in model.input}, training=False)
        return {name: outputs[name] for name in names}

    return next_outputs


def _in_jax(model: keras.Model, names: list[str]) -> Callable[[Iterator], dict[str, Any]]:
    call = forward(model, names)
    return lambda iterator: call(next(iterator))
