"""Examples of fine-tuning tasks, and the files of those with one text or two.

In all formats a row that can't be read is an error with its file and line: without the row, the
task would be scored on other data. `tfnlp.data.read_task` can leave such rows out and list them.
"""

import math
from dataclasses import dataclass

from tfnlp.data.labelled.rows import BadRow, LeftOut, TaskData, checked_text, filled_lines, gather
from tfnlp.data.labelled.tables import Column, Reading, Table, cell, find_columns, given_cell


@dataclass(frozen=True, slots=True)
class TaskExample:
    """One example of a task.

    Attributes:
        segments: its text, or its two texts.
        label: the name of its class; a float score; with `choices` the index of the right one; or
            of "labels" the names of all its labels, sorted. None if it is not known.
        choices: texts of which one fits `segments` best; () in other tasks.
    """

    segments: tuple[str, ...]
    label: str | float | int | tuple[str, ...] | None
    choices: tuple[str, ...] = ()


def table_examples(task: str, table: Table, how: Reading) -> TaskData:
    """Return the examples of a table, see `read_task`."""
    chosen, answer = find_columns(table, how)
    if len(chosen) > 2:
        raise ValueError(f"text must name one or two columns; got {chosen!r}")

    def make(row: dict | list) -> TaskExample:
        texts = [checked_text(cell(row, column), f"text {column!r}") for column in chosen]
        found = label_cell(row, answer, how.labelled)
        if isinstance(found, str) and found in how.drop:
            if how.labelled:
                raise LeftOut(f"its label {found!r} is one to leave out")
            found = None
        if found is not None:
            found = _score(found) if task == "similarity" else _class_name(found)
        return TaskExample(tuple(value.strip() for value in texts), found)

    return gather(table.source, table.rows, make, how.skip)


def labelled_lines(path: str, skip: bool, labelled: bool) -> TaskData:
    """Return the examples of lines `label text`; with `labelled=False`, of lines that are texts."""

    def make(line: str) -> TaskExample:
        found, _, text = line.partition(" ") if labelled else (None, "", line)
        return TaskExample((checked_text(text, "its text").strip(),), found)

    rows = [(where, line.strip()) for where, line in filled_lines(path)]
    tabs = {line.count("\t") for _, line in rows}
    if labelled and len(tabs) == 1 and 0 not in tabs:
        raise ValueError(
            f"{path}: its lines have columns between tabs, and are not label, blank and text; give "
            "the columns with text and label (--text 0 --label 1), or a name that ends in .tsv if "
            "the first line has their names"
        )
    return gather(path, rows, make, skip)


def label_cell(row: dict | list, column: Column | None, labelled: bool) -> object:
    """Return the label of a row, without blanks around it; None if it has none."""
    if column is None:
        return None
    found = given_cell(row, column, labelled)
    found = found.strip() if isinstance(found, str) else found
    if found is None or found == "":
        if labelled:
            raise BadRow("its label is empty")
        return None
    return found


def _class_name(found: object) -> str:
    if not isinstance(found, (str, int, float)):
        raise BadRow(f"its label must be a name; got {found!r:.60}")
    return checked_text(str(found), "its label")


def _score(found: object) -> float:
    try:
        score = math.nan if isinstance(found, bool) else float(found)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise BadRow(f"the score must be a number; got {found!r:.60}")
    return score
