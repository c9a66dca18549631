"""Python objects that hold rows: lists, columns, pandas frames and `tf.data` data sets.

Neither pandas nor TensorFlow is imported: their objects are recognized by their types.
"""

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping

import numpy as np


def is_path(value: object) -> bool:
    """Return whether `value` is a string or a path object."""
    return isinstance(value, (str, os.PathLike))


def is_series(value: object) -> bool:
    """Return whether `value` is a `pandas.Series`."""
    return _is_pandas(value, "Series")


def _is_pandas(value: object, name: str) -> bool:
    return any(
        kind.__name__ == name and kind.__module__.split(".")[0] == "pandas"
        for kind in type(value).__mro__
    )


def iterate(data: object, name: str) -> tuple[object, Iterator]:
    """Return the first row of `data`, and an iterator of all rows.

    A mapping is a table: its values are columns, and a row is a dict. A data frame is a table, too.
    The rows of anything else are its elements.

    Args:
        data: a mapping, a pandas frame or series, a `tf.data.Dataset` or any other iterable.
        name: the argument that holds it, for messages.
    """
    if isinstance(data, Mapping):
        rows = _rows_of_columns(dict(data), name)
    elif _is_pandas(data, "DataFrame"):
        rows = (
            dict(zip(map(str, data.columns), row, strict=True))
            for row in data.itertuples(index=False, name=None)
        )
    elif hasattr(data, "element_spec") and hasattr(data, "as_numpy_iterator"):  # `tf.data`
        rows = data.as_numpy_iterator()
    elif isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        rows = iter(data)
    else:
        raise ValueError(
            f"{name} must be a path, a list of rows, a pandas frame or a tf.data.Dataset; got "
            f"{type(data).__name__}"
        )
    try:
        first = next(rows)
    except StopIteration:
        raise ValueError(f"{name} is empty; give at least one row") from None
    return first, itertools.chain([first], rows)


def _rows_of_columns(columns: dict, name: str) -> Iterator[dict]:
    for key, column in columns.items():
        if isinstance(column, (str, bytes)) or not hasattr(column, "__len__"):
            raise ValueError(
                f"{name}: the column {key!r} must be a list with a value for each row; got "
                f"{column!r:.60}"
            )
    sizes = {key: len(column) for key, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"{name}: the columns must have the same length; got {sizes}")
    return (
        dict(zip(map(str, columns), row, strict=True))
        for row in zip(*columns.values(), strict=True)
    )


def plain(value: object) -> object:
    """Return a value of numpy, pandas or TensorFlow as plain Python.

    Args:
        value: a scalar, an array, a tensor, or lists, tuples and mappings of them.

    Returns:
        str, int, float, bool, None (also for NaN and `pandas.NA`), list or dict.
    """
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, "to_list"):  # a ragged tensor, a series
        return plain(value.to_list())
    if hasattr(value, "numpy"):
        return plain(value.numpy())
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value
