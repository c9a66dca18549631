"""An action of a module: the fields of its form, its options, and what computes it."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """A part of a row.

    Attributes:
        name: its key.
        label: the label of its input.
        kind: "lines": a string, each line of the input is a row; "line" and "text": a string of
            one line or several; "list": strings, one a line; "number": a whole number from 0.
        example: what the input holds at first.
        may_be_empty: whether the empty string is allowed.
    """

    name: str
    label: str
    kind: str
    example: str = ""
    may_be_empty: bool = False


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
    """

    name: str
    title: str
    button: str
    help: str
    fields: tuple[Field, ...]
    run: Callable[[Sequence[Row]], list[Row]]
    options: tuple[Option, ...] = ()
    check: Callable[[Row], None] | None = None

    def described(self) -> Row:
        """Return all but the functions, for the page."""
        return {name: x for name, x in asdict(self).items() if name not in ("run", "check")}
