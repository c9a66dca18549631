"""The outputs of other modules from strings, as they are."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfnlp.serving.actions.action import Action, Field, Row
from tfnlp.serving.actions.values import column, plain

_MOST = 1000  # values that are shown in full
_FIRST = 8


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
