"""Lists of Python to tensors, and outputs of modules to what JSON can hold."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def call_of(function: Callable) -> Callable[..., dict[str, Any]]:
    """Return a signature as a function of named lists to a dict of arrays."""

    def call(**inputs: Any) -> dict[str, Any]:
        found = function(**{name: tf.convert_to_tensor(x) for name, x in inputs.items()})
        return {name: array_of(x) for name, x in found.items()}

    return call


def array_of(tensor: Any) -> Any:
    """Return a tensor as an array; a ragged one as lists."""
    return tensor.to_list() if isinstance(tensor, tf.RaggedTensor) else tensor.numpy()


def plain(value: Any) -> Any:
    """Return an array or a nest of them as lists, strings and numbers.

    Bytes that are not UTF-8 become U+FFFD, numbers that are not finite None: JSON has neither.
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def column(rows: Sequence[dict[str, Any]], name: str) -> list[Any]:
    """Return the values of a key."""
    return [row[name] for row in rows]
