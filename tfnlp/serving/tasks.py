"""The tasks of fine-tuned modules, each by its `Playground`; outputs of others."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfnlp.serving.action import Action, Row, column, plain
from tfnlp.tasks.playground import Field, Playground

Call = Callable[..., dict[str, Any]]
_MOST = 1000  # values that are shown in full
_FIRST = 8
_EXAMPLES = 20
_KINDS = {"list": list, "number": int}


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


def outputs(call: Callable[..., dict[str, Any]], names: Sequence[str]) -> Action:
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
