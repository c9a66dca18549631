"""Rows of labelled data, and how readers handle rows that can't be read.

A reader passes pairs `(where, row)`, and a function that returns the example of a row or raises
`BadRow` with the reason. `gather` adds file and line to the reason, and raises it or lists it.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfnlp.data.corpus.documents import read_lines
from tfnlp.files import no_file

_LISTS = ("data", "examples", "rows")  # names of a list of rows in an object


@dataclass(frozen=True)
class TaskData:
    """The examples of a task.

    Attributes:
        examples: list of `TaskExample`, `Question` or `TaggedSentence`, in the order of the files.
        skipped: "FILE, line N: reason" for each row that was left out.
        labels_as: of "labels" and "scores" how they are written, `label_columns` or `separator`,
            to read other files alike.
        scheme: of tags that mark entities the scheme that was found, in words; else None. The tags
            of `examples` are BIO.
        notes: how the files or rows were read, in words.
    """

    examples: list
    skipped: list[str] = field(default_factory=list)
    scheme: str | None = None
    labels_as: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list, compare=False)


class BadRow(ValueError):
    """A row that can't be read: the reason, and the place in it (`where`) if it is known."""

    def __init__(self, why: str, where: str | None = None) -> None:
        super().__init__(why)
        self.where = where


class LeftOut(BadRow):
    """A row that can be read but is left out; it is never an error."""


def gather(
    source: str,
    rows: Iterable[tuple[str, Any]],
    make: Callable[[Any], Any],
    skip: bool = False,
    note: str = "",
) -> TaskData:
    """Return the examples that `make` makes of the rows of a file or data set.

    Rows are pairs (where in `source`, row); a row may be a `BadRow`, and `make` may raise one. With
    `skip` these are left out and listed. The note says in words how rows are read.
    """
    data = TaskData([], notes=[note] if note else [])
    for where, row in rows:
        try:
            if isinstance(row, BadRow):
                raise row
            data.examples.append(make(row))
        except BadRow as error:
            message = f"{source}, {error.where or where}: {error}"
            if not skip and not isinstance(error, LeftOut):
                raise ValueError(message) from error
            data.skipped.append(message)
    if not data.examples:
        raise no_examples(source, data.skipped)
    return data


def no_examples(source: str, skipped: Sequence[str] = ()) -> ValueError:
    """Return the error for a source without examples."""
    if skipped:
        return ValueError(
            f"no examples in {source}: none of its {len(skipped)} rows can be used; the first: "
            f"{skipped[0]}"
        )
    return ValueError(f"no examples in {source}; is it a file of this format?")


def file_lines(path: str | os.PathLike) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without their ends; `.gz` is unpacked."""
    path = os.path.expanduser(os.fspath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; expected a file")
    if not os.path.exists(path):
        raise no_file(path)
    number = 0
    try:
        for line in read_lines(path):
            yield line
            number += 1
    except (ValueError, OSError) as error:
        if error.__cause__ is None:  # an error of the whole file
            raise
        raise type(error)(f"{error} (after line {number})") from error.__cause__


def filled_lines(path: str | os.PathLike) -> Iterator[tuple[str, str]]:
    """Yield `(where, line)` of the lines of a file that are not blank, see `file_lines`."""
    for number, line in enumerate(file_lines(path), 1):
        if line.strip():
            yield f"line {number}", line


def file_kind(path: str | os.PathLike) -> str:
    """Return the extension of a file in lower case, such as ".tsv", without ".gz"."""
    name = os.fspath(path).lower().removesuffix(".gz")
    return os.path.splitext(name)[1]


def json_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict | BadRow]]:
    """Yield the objects of a file with one per line; blank lines are skipped.

    A file that is one list of objects, or one object with such a list under "data", "examples" or
    "rows", is read, too.
    """
    content = parse_json(next((line for line in file_lines(path) if line.strip()), "{}"))
    if not isinstance(content, dict):
        content = parse_json("\n".join(file_lines(path)))
    listed = _listed_objects(content)
    if listed is not None:
        yield from listed
        return
    for number, line in enumerate(file_lines(path), 1):
        if not line.strip():
            continue
        where = f"line {number}"
        row = parse_json(line)
        if isinstance(row, BadRow):
            row.where = where
        elif not isinstance(row, dict):
            row = BadRow(f"expected a JSON object; got {line[:60]!r}")
        yield where, row


def _listed_objects(content: object) -> list[tuple[str, dict | BadRow]] | None:
    """Return the objects of a list, or of the list in an object; None of anything else."""
    if isinstance(content, dict):
        content = next((content[name] for name in _LISTS if name in content), None)
    if not isinstance(content, list) or not isinstance(next(iter(content), None), dict):
        return None
    return [
        (f"item {n}", x if isinstance(x, dict) else BadRow(f"expected an object; got {x!r:.60}"))
        for n, x in enumerate(content, 1)
    ]


def parse_json(text: str) -> object:
    """Return the value of a JSON text, or a `BadRow` with the reason why there is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}"
        return BadRow(f"not valid JSON ({error.msg} at column {error.colno})", where)
    except (ValueError, RecursionError) as error:  # a number too long or lists too deep
        return BadRow(f"not valid JSON ({error})")


def checked_text(value: object, name: str, may_be_blank: bool = False) -> str:
    """Return `value` if it is a string that is not blank and can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise BadRow(f"{name} must be a text; got {value!r:.60}")
    if not value.strip() and not may_be_blank:
        raise BadRow(f"{name} is empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRow(f"{name} holds half of a surrogate pair: {value!r:.60}") from None
    return value
