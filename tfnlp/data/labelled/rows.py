"""Rows of task files: where each one stands, and what becomes of those that can't be read.

A reader gives `(where, row)` and a function that makes an example of a row or raises `BadRow` with
the reason; `gather` adds file and line to it, and either stops or writes it down.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tfnlp.data.corpus.documents import read_lines


@dataclass(frozen=True)
class TaskData:
    """What was read of the files of a task.

    Attributes:
        examples: `TaskExample`, `Question` or `TaggedSentence`, in the order of the files.
        skipped: "FILE, line N: why" for each row that was left out.
    """

    examples: list
    skipped: list[str] = field(default_factory=list)


class BadRow(ValueError):
    """A row can't be read: why, and in which part of it (`where`) if that is known better."""

    def __init__(self, why: str, where: str | None = None):
        super().__init__(why)
        self.where = where


class LeftOut(BadRow):
    """A row that can be read but is not wanted; it never stops the reading."""


def gather(
    source: str, rows: Iterable[tuple[str, object]], make: Callable, skip: bool = False
) -> TaskData:
    """The examples of a file or data set.

    Args:
        source: its name, for messages.
        rows: (where in `source`, row); a row that is a `BadRow` is one already.
        make: an example of a row; may raise `BadRow`.
        skip: write bad rows down and go on.

    Raises:
        ValueError: a bad row, unless `skip`; no examples at all.
    """
    data = TaskData([])
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


def no_examples(source: str, skipped: list[str] = ()) -> ValueError:
    """The error of a source that gave nothing."""
    if skipped:
        return ValueError(
            f"no examples in {source}: none of its {len(skipped)} rows can be used; the first: "
            f"{skipped[0]}"
        )
    return ValueError(f"no examples in {source}; is it a file of this format?")


def file_lines(path: str | os.PathLike) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends; `.gz` is unpacked on the way.

    Raises:
        ValueError: not UTF-8.
        FileNotFoundError: there is no such file.
        OSError: a folder; a damaged or truncated gzip file.
    """
    path = os.path.expanduser(os.fspath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; expected a file")
    if not os.path.exists(path):
        raise FileNotFoundError(f"no such file: {path}")
    number = 0
    try:
        for line in read_lines(path):
            yield line
            number += 1
    except (ValueError, OSError) as error:
        if error.__cause__ is None:  # of the file as a whole
            raise
        raise type(error)(f"{error} (after line {number})") from error.__cause__


def file_kind(path: str | os.PathLike) -> str:
    """The end of a file's name in lower case, such as ".tsv", without ".gz"."""
    name = os.fspath(path).lower().removesuffix(".gz")
    return os.path.splitext(name)[1]


def json_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict | BadRow]]:
    """The objects of a file with one on each line; blank lines are passed over."""
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


def parse_json(text: str) -> object:
    """The value of a JSON text, or a `BadRow` that says why there is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}"
        return BadRow(f"not valid JSON ({error.msg} at column {error.colno})", where)
    except (ValueError, RecursionError) as error:  # a number or a depth beyond all measure
        return BadRow(f"not valid JSON ({error})")


def checked_text(value: object, name: str) -> str:
    """`value`, if it is a string that holds more than blanks and can be written as UTF-8.

    Raises:
        BadRow: else. JSON can spell half of a surrogate pair, which no tokenizer would take.
    """
    if not isinstance(value, str):
        raise BadRow(f"{name} must be a text; got {value!r:.60}")
    if not value.strip():
        raise BadRow(f"{name} is empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRow(f"{name} holds half of a surrogate pair: {value!r:.60}") from None
    return value
