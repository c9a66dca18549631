"""Texts, or pairs of texts, with a class or a score.

In all forms a row that can't be read is an error with its file and line: without the row, the task
would be scored on other data. `RowForm.read` can leave such rows out and list them.
"""

import abc
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tfnlp.data.labelled.forms import RowForm
from tfnlp.data.labelled.rows import (
    BadRow,
    LeftOut,
    TaskData,
    checked_text,
    file_kind,
    filled_lines,
    gather,
)
from tfnlp.data.labelled.tables import (
    TABLES,
    Column,
    Reading,
    Table,
    cell,
    find_columns,
    given_cell,
)

_MANY_LABELS = 20  # with fewer, a file of few examples is meant so
_MARKED = re.compile(r"(?<!\S)__label__(\S*)\s*")  # a label in a file for fastText


@dataclass(frozen=True, slots=True)
class TaskExample:
    """One example of a task.

    Attributes:
        segments: its text, or its two texts.
        label: its class, see `class_name`; a float score; with `choices` the index of the right
            one; or of "labels" all its labels, sorted by name. None if it is not known.
        choices: texts of which one fits `segments` best; () in other tasks.
    """

    segments: tuple[str, ...]
    label: str | float | int | tuple[str | float | int, ...] | None
    choices: tuple[str, ...] = ()


def class_name(label: object) -> str:
    """Return the name of a class, which 1, 1.0 and "1" have in common."""
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return str(label)


class TextRows(RowForm):
    """A text or two, and what is to be predicted of them."""

    fields: ClassVar[tuple[str, ...]] = ("text_a", "text_b", "label")
    example: ClassVar[type] = TaskExample

    def names_of(self, row: list[Any], labelled: bool) -> Sequence[str]:
        if len(row) == 1 and not labelled:
            return ("text",)
        if len(row) == 2 and (labelled or not isinstance(row[1], str)):
            return ("text", self.fields[-1])
        return super().names_of(row, labelled)


class OneLabelRows(TextRows):
    """A text or two, and one label."""

    def of_table(self, table: Table, how: Reading) -> TaskData:
        chosen, answer = find_columns(table, how)
        return text_examples(table, how, one_or_two(chosen), answer, self.label_of)

    @abc.abstractmethod
    def label_of(self, found: object) -> object:
        """Return the label that a field holds; raise `BadRow` if it holds none."""


def one_or_two(texts: list[Column]) -> list[Column]:
    """Return the columns of the texts, of which there may be two at most."""
    if len(texts) > 2:
        raise ValueError(f"text must name one or two columns; got {texts!r}")
    return texts


def text_examples(
    table: Table,
    how: Reading,
    texts: list[Column],
    answer: Column | None,
    label_of: Callable[[object], Any],
    may_be_blank: bool | None = None,
) -> TaskData:
    """Return examples of columns of texts and one of labels, of which some are left out.

    Texts may be blank if they have no labels, unless `may_be_blank` says it.
    """
    blank = not how.labelled if may_be_blank is None else may_be_blank

    def make(row: dict | list) -> TaskExample:
        segments = texts_of_row(row, texts, blank)
        found = label_cell(row, answer, how.labelled)
        if isinstance(found, str) and found in how.drop:
            if how.labelled:
                raise LeftOut(f"its label {found!r} is one to leave out")
            found = None
        return TaskExample(segments, None if found is None else label_of(found))

    labels = [] if answer is None else [answer]
    return gather(table.source, table.rows, make, how.skip, table.read_as(texts, labels))


def texts_of_row(row: dict | list, columns: list[Column], may_be_blank: bool) -> tuple[str, ...]:
    """Return the texts in columns of a row, without blanks around them."""
    return tuple(
        checked_text(cell(row, column), f"text {column!r}", may_be_blank).strip()
        for column in columns
    )


class ClassRows(OneLabelRows):
    """A text or two, and a class: a name, a number or a bool.

    `.tsv`, `.csv` and `.jsonl` are tables. All other files have lines `label text` (without labels
    lines `text`, unless `label=0` says that the label comes first), or lines with `__label__A`, as
    for fastText; with `text` they are tables with tabs.
    """

    expected: ClassVar[str] = "(text, class) or (text_a, text_b, class)"

    def of_file(self, path: str, how: Reading) -> TaskData:
        if how.text is not None or file_kind(path) in TABLES:
            return super().of_file(path, how)
        if how.label not in (None, 0, "0"):
            raise ValueError(
                f"{path}: without text, its lines are label and text, so label can only be 0; "
                f"got {how.label!r}"
            )
        return _labelled_lines(path, how.skip, how.labelled or how.label is not None)

    def label_of(self, found: object) -> str | int | float:
        return checked_label(found, "its label")

    def doubt(self, examples: Sequence[Any]) -> str:
        names, count = {class_name(e.label) for e in examples}, len(examples)
        if len(names) <= max(_MANY_LABELS, count / 2):
            return ""
        many = f"{len(names):,} different labels of {count:,} examples"
        return f"{many}; is the label in the right column?"


class ScoreRows(OneLabelRows):
    """Two texts, or one, and a number: `.csv`, `.jsonl`, and all other files with tabs."""

    expected: ClassVar[str] = "(text_a, text_b, number)"
    has_class_names: ClassVar[bool] = False

    def label_of(self, found: object) -> float:
        try:
            score = math.nan if isinstance(found, bool) else float(found)
        except (TypeError, ValueError, OverflowError):
            score = math.nan
        if not math.isfinite(score):
            raise BadRow(f"the score must be a number; got {found!r:.60}")
        return score


def _labelled_lines(path: str, skip: bool, labelled: bool) -> TaskData:
    """Return the examples of lines `label text`; with `labelled=False`, of lines that are texts."""

    def make(line: str) -> TaskExample:
        found, _, text = line.partition(" ") if labelled else (None, "", line)
        return TaskExample((checked_text(text, "its text").strip(),), found)

    def make_marked(line: str) -> TaskExample:
        found, text = marked_labels(line)
        if labelled and len(found) != 1:
            raise BadRow(f"has {len(found)} labels; expected one, and any number for `labels`")
        return TaskExample((text,), found[0] if len(found) == 1 else None)

    rows = [(where, line.strip()) for where, line in filled_lines(path)]
    if any(_MARKED.search(line) for _, line in rows):
        return gather(path, rows, make_marked, skip, "lines of fastText, labels are __label__NAME")
    tabs = {line.count("\t") for _, line in rows}
    if labelled and len(tabs) == 1 and 0 not in tabs:
        raise ValueError(
            f"{path}: its lines have columns between tabs, and are not label, blank and text; give "
            "the columns with text and label (--text 0 --label 1), or a name that ends in .tsv if "
            "the first line has their names"
        )
    how = "lines of a label, a blank and a text" if labelled else "a text a line"
    return gather(path, rows, make, skip, how)


def marked_labels(line: str) -> tuple[list[str], str]:
    """Return the labels of a line for fastText, which stand anywhere in it, and its text."""
    found = [checked_text(name, "a label") for name in _MARKED.findall(line)]
    return found, checked_text(_MARKED.sub("", line), "its text").strip()


def checked_label(found: object, name: str) -> str | int | float:
    """Return a class or label; raise `BadRow` for what can't be one."""
    if not isinstance(found, str | int | float):
        raise BadRow(f"{name} must be a name; got {found!r:.60}")
    checked_text(class_name(found), name)
    return found.strip() if isinstance(found, str) else found


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
