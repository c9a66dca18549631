"""The gate of all input: rows from whatever a user has, as plain Python.

Taken are paths, globs, `tfds:` and `book:` names; strings, lists, tuples, generators and numpy
arrays; dicts of columns; tables and series of pandas, polars, Arrow and what else narwhals reads;
data sets of Hugging Face, with the names of their labels; `tf.data.Dataset`s, batched or not.
"""

import itertools
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import tensorflow as tf
from narwhals.dependencies import get_pandas
from narwhals.exceptions import NarwhalsError

from tfnlp.data.labelled.rows import BadRow, TaskData

_FILE_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}$")
_EXPECTED = (
    "a list, a dict of columns, a numpy array, a table of pandas, polars or Arrow, a Hugging Face "
    "data set, a tf.data.Dataset or a pathlib.Path"
)


def is_path(value: object) -> bool:
    """Return whether `value` is a string or a path object."""
    return isinstance(value, (str, os.PathLike))


def is_text(value: object) -> bool:
    """Return whether `value` is one string: of Python, numpy or TensorFlow, and no path object."""
    if isinstance(value, (str, bytes)):
        return not isinstance(value, os.PathLike)
    return getattr(value, "shape", None) == () and isinstance(plain(value), str)


def held(value: Any) -> Any:
    """Return a list of what a generator yields, which can be read once; all else as it is."""
    return list(value) if isinstance(value, Iterator) else value


def paths_of(value: object, argument: str) -> list[str | os.PathLike] | None:
    """Return the paths, globs and names of data sets that an argument holds; None of rows.

    A string is one of them. A list of strings holds texts if one of them is clearly a text: it has
    a space or a line break, does not end like the name of a file (`.txt`), and no file of that name
    exists. So a list of words, or of texts that all end like names of files, is a list of paths:
    pass such texts as `{"text": [...]}`.

    Raises:
        ValueError: for a string with line breaks; for files and texts in one list.
    """
    if is_path(value):
        if "\n" in os.fspath(value) and is_text(value):
            raise ValueError(
                f"{argument} is a string with line breaks, which can't be a path; give a text as a "
                f"list: {argument}=[...]"
            )
        return [value]
    if not isinstance(value, (list, tuple)) or not value or not all(map(is_path, value)):
        return None
    return None if _holds_texts(value, argument) else list(value)


def _holds_texts(values: Sequence[str | os.PathLike], argument: str) -> bool:
    source = next((value for value in values if _is_source(value)), None)
    text = next((value for value in values if _is_clearly_text(value)), None)
    if source is not None and text is not None:
        raise ValueError(
            f"{argument} holds files ({os.fspath(source)!r:.60}) and texts ({text!r:.60}); give "
            f'one kind, texts as {{"text": [...]}} if a list of them is not clear'
        )
    return text is not None


def _is_source(value: str | os.PathLike) -> bool:
    """Return whether `value` is certainly a path or the name of a data set."""
    if isinstance(value, os.PathLike) or value.startswith(("tfds:", "book:")):
        return True
    return "\n" not in value and len(value) < 4096 and os.path.exists(os.path.expanduser(value))


def _is_clearly_text(value: str | os.PathLike) -> bool:
    if _is_source(value):
        return False
    return "\n" in value or (" " in value.strip() and not _FILE_EXTENSION.search(value))


def files_of(value: object) -> list[os.PathLike]:
    """Return the path objects that a value is or lists, which name files wherever they stand."""
    files = list(value) if isinstance(value, (list, tuple)) else [value]
    return files if all(isinstance(file, os.PathLike) for file in files) else []


def rows_of(value: object, argument: str, class_names: bool = True) -> Iterator[tuple[str, Any]]:
    """Yield `("row 0", row)` for each row that an argument holds, as plain Python.

    Of a table (a mapping is one, its values are columns) rows are dicts by the names of columns.
    Of anything else they are its elements, see `plain`. Other objects, such as examples, stay as
    they are. A row that is not UTF-8 text is a `BadRow`.

    Args:
        value: see the module; not a path.
        argument: its name, for messages.
        class_names: give the names of Hugging Face's `ClassLabel`s; else their numbers.

    Raises:
        ValueError: for something else, columns of several lengths, or no rows.
    """
    rows = plain_rows(value, argument, class_names)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{argument} is empty; give at least one row")
    return itertools.chain([first], rows)


def plain_rows(value: object, argument: str, class_names: bool = True) -> Iterator[tuple[str, Any]]:
    """Yield what `rows_of` does; there may be no rows."""
    for number, row in enumerate(_elements(value, argument, class_names)):
        try:
            row = plain(row)
        except UnicodeDecodeError:
            row = BadRow("is not UTF-8 text")
        yield f"row {number}", row


def _elements(value: object, argument: str, class_names: bool = True) -> Iterator[Any]:
    """Return an iterator of the rows of any container."""
    hugging_face = _hugging_face(value, argument, class_names)
    if hugging_face is not None:
        return hugging_face
    if isinstance(value, TaskData):
        return iter(value.examples)
    if isinstance(value, tf.data.Dataset):
        return (value.unbatch() if _is_batched(value) else value).as_numpy_iterator()
    try:
        table = nw.from_native(value, allow_series=True, pass_through=True)
    except NarwhalsError as error:
        raise ValueError(f"{argument} can't be read: {error}") from error
    if isinstance(table, nw.LazyFrame):
        table = table.collect()
    if isinstance(table, nw.DataFrame):
        names = list(map(str, table.columns))
        return (dict(zip(names, row, strict=True)) for row in table.iter_rows())
    if isinstance(table, nw.Series):
        return iter(table.to_list())
    if hasattr(value, "to_pylist"):  # arrays and batches of Arrow
        return iter(value.to_pylist())
    if isinstance(value, np.ndarray) and value.dtype.names:
        value = {name: value[name] for name in value.dtype.names}
    if isinstance(value, Mapping):
        return _rows_of_columns(value, argument)
    if isinstance(value, (tf.Tensor, tf.RaggedTensor)):
        value = plain(value)
    if not isinstance(value, Iterable) or is_path(value) or getattr(value, "shape", None) == ():
        got = type(value).__name__
        raise ValueError(f"{argument} must be {_EXPECTED}; got {got}")
    return iter(value)


def _rows_of_columns(columns: Mapping, argument: str) -> Iterator[dict]:
    for name, column in columns.items():
        if is_text(column) or not isinstance(column, Iterable):
            raise ValueError(
                f"{argument}: the column {name!r} must be a list with a value for each row; got "
                f"{column!r:.60}"
            )
    lists = {str(n): list(_elements(c, f"{argument}[{n!r}]")) for n, c in columns.items()}
    sizes = {name: len(column) for name, column in lists.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"{argument}: the columns must have the same length; got {sizes}")
    return (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))


def _hugging_face(value: Any, argument: str, class_names: bool) -> Iterator[dict] | None:
    """Return the rows of a data set of Hugging Face; None of anything else."""
    library = sys.modules.get("datasets")  # where it isn't imported there is no such data set
    if not hasattr(library, "ClassLabel"):
        return None
    if isinstance(value, (library.DatasetDict, library.IterableDatasetDict)):
        names = ", ".join(map(repr, value))
        raise ValueError(f"{argument} holds several data sets ({names}); give one of them")
    if not isinstance(value, (library.Dataset, library.IterableDataset)):
        return None
    features = value.features or {}  # a stream may not know them
    return (
        {k: with_names(features.get(k), x, class_names) for k, x in row.items()}
        for row in value.with_format(None)
    )


def with_names(feature: Any, value: Any, class_names: bool) -> Any:
    """Return a plain value with the names of classes; `feature` is Hugging Face's or that of TFDS.

    -1, a class that is not known, is None.
    """
    if value is None or feature is None:
        return value
    inner = feature[0] if isinstance(feature, list) else getattr(feature, "feature", None)
    if inner is not None and isinstance(value, dict):  # a sequence of dicts is a dict of lists
        inner = dict(inner)
        return {
            k: [with_names(inner.get(k), x, class_names) for x in values]
            for k, values in value.items()
        }
    if inner is not None:
        return [with_names(inner, x, class_names) for x in value]
    if hasattr(feature, "keys") and isinstance(value, dict):
        inner = dict(feature)
        return {k: with_names(inner.get(k), x, class_names) for k, x in value.items()}
    if not hasattr(feature, "int2str") or not isinstance(value, int):
        return value
    return None if value < 0 else feature.int2str(value) if class_names else value


def _is_batched(dataset: tf.data.Dataset) -> bool:
    """Return whether the elements of a data set are batches.

    Those with a scalar are rows. Those of lists alone may be rows, too, such as words and their
    tags: then how the data set was made decides.
    """
    ranks = [spec.shape.rank for spec in tf.nest.flatten(dataset.element_spec)]
    if None in ranks or min(ranks, default=0) == 0:
        return False
    kind = type(dataset).__name__
    while not re.search("Unbatch|FlatMap|Interleave|Window", kind):
        if re.search("[Bb]atch|DenseToRagged", kind):
            return True
        inputs = dataset._inputs()
        if len(inputs) != 1:
            return False
        (dataset,) = inputs
        kind = type(dataset).__name__
    return False


def plain(value: object) -> object:
    """Return a value of numpy, pandas, Arrow or TensorFlow as plain Python.

    Args:
        value: a scalar, an array, a tensor, or lists, tuples and mappings of them.

    Returns:
        str, int, float, bool, None (also for NaN and `pandas.NA`), list or dict.
    """
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    for method in ("to_list", "to_pylist", "as_py", "numpy"):  # series, Arrow, tensors
        if hasattr(value, method):
            return plain(getattr(value, method)())
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    pandas = get_pandas()
    if pandas is not None and (value is pandas.NA or value is pandas.NaT):
        return None
    return value
