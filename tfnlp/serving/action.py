"""An action of a module: its options, what computes it, and its values.

Those of fine-tuned modules are of their tasks, each by its `Playground`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.tasks.playground import Field, Playground

Row = dict[str, Any]
Call = Callable[..., dict[str, Any]]
_MOST = 1000  # values that are shown in full
_FIRST = 8
_EXAMPLES = 20
_KINDS = {"list": list, "number": int}


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


def of_task(name: str, playground: Playground, call: Call, examples: object = ()) -> Action:
    """Return the action of a module of the task `name`, with those `examples` that are rows."""
    names = [field.name for field in playground.fields]

    def run(rows: Sequence[Row]) -> list[Row]:
        shown: list[Row] = [{}] * len(rows)
        for places in _alike(rows, names):
            some = [rows[i] for i in places]
            found = call(**{name: column(some, name) for name in names})
            for place, (i, row) in enumerate(zip(places, some, strict=True)):
                shown[i] = playground.shown(row, {n: plain(x[place]) for n, x in found.items()})
        return shown

    return Action(
        name, playground.title, playground.button, playground.help, playground.fields, run,
        check=playground.check, labels=tuple(playground.labels or ()),
        examples=_rows(playground, examples),
    )  # fmt: skip


def _rows(playground: Playground, examples: object) -> tuple[Row, ...]:
    """Return the rows among what a module states as its examples; it may be a stranger's."""
    kinds = {field.name: _KINDS.get(field.kind, str) for field in playground.fields}
    return tuple(
        {name: row[name] for name in kinds}
        for row in (examples if isinstance(examples, list) else ())[:_EXAMPLES]
        if isinstance(row, dict) and all(type(row.get(n)) is kind for n, kind in kinds.items())
    )


def _alike(rows: Sequence[Row], names: Sequence[str]) -> list[list[int]]:
    """Return the places of rows that fit in one tensor: whose lists are of the same length."""
    places: dict[tuple[int, ...], list[int]] = {}
    for i, row in enumerate(rows):
        sizes = (len(row[name]) for name in names if isinstance(row[name], list))
        places.setdefault(tuple(sizes), []).append(i)
    return list(places.values())


def outputs(call: Call, names: Sequence[str]) -> Action:
    """Return the action that shows what a module returns."""

    def run(rows: Sequence[Row]) -> list[Row]:
        found = call(**{name: column(rows, name) for name in names})
        return [
            {name: _shown(value, i, len(rows)) for name, value in found.items()}
            for i in range(len(rows))
        ]

    kind = "lines" if len(names) == 1 else "text"
    fields = tuple(
        Field(name, f"{name}, one text a line" if kind == "lines" else name, kind, "Hello, world!")
        for name in names
    )
    text = "What the module returns. Its outputs are not those of a task that this page knows."
    return Action("outputs", "Outputs", "Run", text, fields, run)


def _shown(value: Any, row: int, count: int) -> Any:
    """Return the part of an output that belongs to a row; a large one by its shape."""
    if np.ndim(value) and len(value) == count:
        value = value[row]
    if isinstance(value, np.ndarray) and value.size > _MOST:
        return {"shape": list(value.shape), "first": plain(value.ravel()[:_FIRST])}
    return plain(value)
