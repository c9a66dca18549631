"""Random inputs for a model."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.hub.saving.keras_module import symbols

_BATCH, _LENGTH = 4, 8  # sizes of axes that the model leaves open
_WORDS = ("the", "a", "cat", "dog", "sat", "ran", "to")


def probe_batch(model: keras.Model, seed: int = 0) -> Any:
    """Return random inputs of `model`, in its structure.

    Integers that index a table are from 0 to its last row; others are 0 or 1, because they are
    masks, segment types or flags. Floats are normal; strings are three English words.
    """
    rng = np.random.default_rng(seed)
    inputs, _ = symbols(model)
    flat = tf.nest.flatten(inputs)
    found = [_values(rng, x, rows) for x, rows in zip(flat, table_rows(model), strict=True)]
    return tf.nest.pack_sequence_as(inputs, found)


def table_rows(model: keras.Model) -> list[int | None]:
    """Return for each input the rows of the smallest table that it indexes, None if it does not.

    The inputs are in the order of `tf.nest`. A layer is a table if it maps ids `[..., T]` to
    `[..., T, H]` and has a matrix `[rows, H]`.
    """
    inputs, _ = symbols(model)
    return [min(_rows(x, set()), default=None) for x in tf.nest.flatten(inputs)]


def _rows(x: keras.KerasTensor, seen: set[int]) -> list[int]:
    """Return the rows of the tables that the symbolic tensor `x` indexes."""
    found = []
    if id(x) in seen:  # a model and its sub-model may share an input
        return found
    seen.add(id(x))
    for node in x._keras_history.operation._outbound_nodes:
        if not any(y is x for y in node.input_tensors):
            continue
        operation = node.operation
        if hasattr(operation, "inputs"):  # a model in the model
            inner = tf.nest.flatten(symbols(operation)[0])
            for y, symbol in zip(node.input_tensors, inner, strict=True):
                found += _rows(symbol, seen) if y is x else []
        elif getattr(operation, "weights", ()):
            widths = {y.shape[-1] for y in node.outputs if len(y.shape) == len(x.shape) + 1}
            matrices = [w.shape for w in operation.weights if len(w.shape) == 2]
            found += [rows for rows, width in matrices if width in widths]
        else:  # for example a cast
            for y in node.outputs:
                alike = "int" in y.dtype and y.shape == x.shape
                found += _rows(y, seen) if alike else []
    return found


def _values(rng: np.random.Generator, x: keras.KerasTensor, rows: int | None) -> tf.Tensor:
    shape = [_BATCH if i == 0 else _LENGTH if n is None else n for i, n in enumerate(x.shape)]
    dtype = tf.as_dtype(x.dtype)
    if dtype == tf.string:
        words = rng.choice(_WORDS, (*shape, 3))
        return tf.strings.reduce_join(tf.constant(words), axis=-1, separator=" ")
    if dtype.is_floating:
        return tf.constant(rng.normal(size=shape), dtype)
    return tf.cast(tf.constant(rng.integers(0, rows or 2, shape)), dtype)
