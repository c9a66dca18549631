"""An action of a module: its options, what computes it, and its values."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.tasks.playground import Field

Row = dict[str, Any]


@dataclass(frozen=True)
class Option:
    """A setting of all rows of a request; its type is that of its default.

    Attributes:
        name: its key.
        label: the label of its input.
        default: a bool, an int or a float.
        low, high: limits of numbers.
        counts_up: row i has the value plus i, so requests with other values may be joined.
    """

    name: str
    label: str
    default: bool | int | float
    low: float = 0
    high: float = 1
    counts_up: bool = False


@dataclass(frozen=True)
class Action:
    """Something that a module does with rows.

    Attributes:
        name: in the address `/api/NAME`.
        title: the text of its tab.
        button: the text of its button.
        help: one sentence.
        fields: the parts of a row.
        run: function of rows, with the values of options among their keys, to as many dicts.
        options: settings of a request.
        check: function of a row that raises ValueError for one that the module can't take.
        stream: function of a row that yields what it is so far, the last time what `run` returns;
            None: it is computed at once.
        labels: names of labels or tags, in the order of the module's outputs.
        examples: rows of the dev set that the module was measured on.
    """

    name: str
    title: str
    button: str
    help: str
    fields: tuple[Field, ...]
    run: Callable[[Sequence[Row]], list[Row]]
    options: tuple[Option, ...] = ()
    check: Callable[[Row], None] | None = None
    stream: Callable[[Row], Iterator[Row]] | None = None
    labels: tuple[str, ...] = ()
    examples: tuple[Row, ...] = ()

    def described(self) -> Row:
        """Return all but the functions, for the page."""
        values = asdict(replace(self, run=None, check=None, stream=None))
        values = {name: x for name, x in values.items() if name not in ("run", "check")}
        return {**values, "stream": self.stream is not None}


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
