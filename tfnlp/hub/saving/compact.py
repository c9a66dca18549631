"""Weights stored as bfloat16 or int8 for inference: half or a quarter of the size."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.files import folder_size
from tfnlp.hub.saving.keras_module import symbols
from tfnlp.hub.traced import without_seeds

KINDS = ("bfloat16", "int8")
_PADDING = 1e8  # scores of padding are further from 0
_BATCH, _LENGTH = 4, 8  # of random inputs, where the model leaves them open
_WORDS = ("the", "a", "cat", "dog", "sat", "ran", "to")


class CompactWeights:
    """The matrices of models, stored in fewer bits.

    `bfloat16`: rounded to the nearest. `int8`: `w = s q` with `q = round(w / s)` from -127 to
    127 and a float32 scale `s = max |w| / 127` for each index of the last axis (an output
    channel of a kernel) or of the first (a row of a table), whichever has the smaller sum of
    squared errors. Vectors, scalars, variables that are not floats, and matrices whose scales
    would take more space than is saved stay as they are.

    A graph converts them back to floats at each call: this saves disk space and memory, not time.

    Args:
        models: Keras models; a weight that they share is stored once.
        kind: "bfloat16" or "int8".
    """

    def __init__(self, models: Iterable[keras.Model], kind: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"weights={kind!r} must be one of {', '.join(KINDS)}")
        self.kind = kind
        self._stored = {}  # id of a Keras variable to (variable, list of tf.Variables)
        for variable in (v for model in models for v in model.variables):
            if id(variable) not in self._stored and tf.as_dtype(variable.dtype).is_floating:
                stored = _stored(variable, kind)
                if stored is not None:
                    self._stored[id(variable)] = variable, stored

    def variables_of(self, model: keras.Model) -> list[tf.Variable]:
        """Return the `tf.Variable`s with the weights of `model`, without the seeds of dropout."""
        found = []
        for variable in without_seeds(model):
            found += self._stored.get(id(variable), (None, [variable.value]))[1]
        return found

    @contextlib.contextmanager
    def scope(self, *models: keras.Model) -> Iterator[None]:
        """Make the layers of `models` read the stored weights inside the context."""
        variables = {id(v): v for model in models for v in model.variables}
        mapping = []
        for variable, stored in (self._stored[key] for key in variables if key in self._stored):
            values = tf.cast(stored[0], "float32")
            if len(stored) == 2:
                values *= stored[1]
            mapping.append((variable, tf.cast(values, variable.dtype)))
        with keras.StatelessScope(state_mapping=mapping):
            yield

    def report(self, directory: str | os.PathLike, model: keras.Model) -> "Report":
        """Compare the SavedModel of a model with the model, on random inputs, and print it."""
        inputs = probe_batch(model)
        want = model(inputs, training=False)
        with self.scope(model):
            got = model(inputs, training=False)
        full = bytes_of(v.value for v, _ in self._stored.values())
        now = bytes_of(x for _, stored in self._stored.values() for x in stored)
        after = folder_size(directory)
        found = Report(after + full - now, after, *_difference(want, got))
        print(f"weights as {self.kind}: {found}")
        return found

    def check(self, used: Iterable[tf.Variable]) -> None:
        """Raise ValueError if a graph uses a variable itself that should be read as stored."""
        used = {id(v) for v in used}
        for variable, _ in self._stored.values():
            if id(variable.value) in used:
                raise ValueError(
                    f"weights={self.kind!r} does not work for the variable {variable.path}, which "
                    "belongs to a loaded SavedModel or is not read through Keras; export it in "
                    "float32"
                )


def quantized(values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a float matrix as `(int8, float32 scale)`, its factors; None if it saves nothing."""
    best = None
    values = np.asarray(values, "float32")
    for axis in (values.ndim - 1, 0):
        others = tuple(i for i in range(values.ndim) if i != axis)
        scale = np.abs(values).max(others, keepdims=True) / np.float32(127)
        scale = np.where(scale > 0, scale, np.float32(1))
        if values.size + 4 * scale.size > 2 * values.size:
            continue
        q = np.clip(np.rint(values / scale), -127, 127).astype("int8")
        error = float(np.square(values - q * scale, dtype="float64").sum())
        if best is None or error < best[0]:
            best = error, q, scale
    return None if best is None else best[1:]


def _stored(variable: keras.Variable, kind: str) -> list[tf.Variable] | None:
    dtype = tf.as_dtype(variable.dtype)
    if len(variable.shape) < 2 or 0 in variable.shape:
        return None
    values, name = variable.value.numpy(), variable.path
    if kind == "bfloat16":
        if dtype.size <= 2:
            return None
        return [tf.Variable(tf.cast(values, "bfloat16"), trainable=False, name=name)]
    found = quantized(values)
    if found is None:
        return None
    parts = zip(found, (name, f"{name}_scale"), strict=True)
    return [tf.Variable(x, trainable=False, name=n) for x, n in parts]


@dataclass(frozen=True)
class Report:
    """Bytes on disk before and after compaction, and its error."""

    before: int
    after: int
    difference: float  # largest absolute difference of a float output
    largest: float  # largest absolute value among these outputs

    def __str__(self) -> str:
        return (
            f"{self.after / 1e6:.2f} MB, {self.after / max(1, self.before):.0%} of "
            f"{self.before / 1e6:.2f} MB; outputs of up to {self.largest:.3g} differ by "
            f"{self.difference:.2g} at most"
        )


def _difference(want: Any, got: Any) -> tuple[float, float]:
    """Return the largest absolute difference of two nests of floats, and the largest of them."""
    difference = largest = 0.0
    for one, other in zip(tf.nest.flatten(want), tf.nest.flatten(got), strict=True):
        if one.dtype.is_floating:
            one, other = np.asarray(one, "float64"), np.asarray(other, "float64")
            real = np.abs(one) < _PADDING
            one, other = one[real], other[real]
            difference = max(difference, np.abs(other - one).max(initial=0))
            largest = max(largest, np.abs(one).max(initial=0))
    return float(difference), float(largest)


def bytes_of(variables: Iterable[tf.Variable]) -> int:
    """Return the size of variables in memory."""
    return sum(v.shape.num_elements() * v.dtype.size for v in variables)


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
