"""Texts, or pairs of texts, with a class or a score; and texts that belong together.

In all forms a row that can't be read is an error with its file and line: without the row, the task
would be scored on other data. `RowForm.read` can leave such rows out and list them.
"""

import abc
import dataclasses
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tfnlp.data.labelled.forms import Record, RowForm
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
    LABEL_COLUMNS,
    TABLES,
    TEXT_COLUMNS,
    Column,
    Reading,
    Table,
    cell,
    find_columns,
    given_cell,
)

_MANY_LABELS = 20  # with fewer, a file of few examples is meant so
_MARKED = re.compile(r"(?<!\S)__label__(\S*)\s*")  # a label in a file for fastText

_RELATED_COLUMNS = (
    ("anchor", "positive", "negative"),
    ("anchor", "positive"),
    ("query", "positive", "negative"),
    ("query", "positive"),
    ("question", "context"),
    ("question", "answer"),
    *TEXT_COLUMNS,
)
_RELATIONS = ("entailment", "neutral", "contradiction")


@dataclasses.dataclass(frozen=True, slots=True)
class TaskExample:
    """One example of a task.

    Attributes:
        segments: its text, or its two texts.
        label: its class, see `class_name`; a float score; with `choices` the index of the right
            one; of "labels" all its labels, sorted by name; of "scores" `(name, number)` of each.
            None if it is not known.
        choices: texts of which one fits `segments` best; () in other tasks.
    """

    segments: tuple[str, ...]
    label: str | float | int | tuple | None
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
        blank = not how.labelled
        return text_examples(table, how, one_or_two(chosen), answer, self.label_of, blank)

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
    may_be_blank: bool,
) -> TaskData:
    """Return examples of columns of texts and one of labels, of which some are left out."""

    def make(row: dict | list) -> TaskExample:
        segments = texts_of_row(row, texts, may_be_blank)
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
        return checked_score(found, "the score")


def checked_score(found: object, name: str) -> float:
    """Return a number; raise `BadRow` for what is none, or not finite."""
    try:
        score = math.nan if isinstance(found, bool) else float(found)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise BadRow(f"{name} must be a number; got {found!r:.60}")
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


class RelatedRows(RowForm):
    """Texts that belong together, with or without a number or a class of the first two.

    Sentence vectors are learnt from them and measured on them: one text is compared with itself
    under dropout (SimCSE); two and more are a text, one that belongs to it, and any number that do
    not; two and a number a pair that people rated; two and a class a premise, a hypothesis and
    their relation, as in SNLI.

    `.tsv`, `.csv` and `.jsonl` are tables. All other files have a text a line; with `text` or
    `label` they are tables with tabs. `text` is any number of columns, the first two a pair,
    further ones hard negatives; None: also anchor or query, positive and negative, question and
    context.
    """

    expected: ClassVar[str] = (
        "a text, (text, its match, further texts ...) or (text, text, number or class)"
    )
    fields: ClassVar[tuple[str, ...]] = ("text_a", "text_b", "label")
    example: ClassVar[type] = TaskExample
    label: ClassVar[str] = ""  # there need be none

    def is_file(self, first: object, labelled: bool) -> bool:
        return super().is_file(first, labelled) and not _is_text(first)

    def fields_of(self, row: object, labelled: bool) -> Record:
        return [row] if isinstance(row, str) else super().fields_of(row, labelled)

    def names_of(self, row: list[Any], labelled: bool) -> Sequence[str]:
        """Return names for texts, and for a label if the last field is no text."""
        last = row[-1] if row else None
        has_label = len(row) > 1 and (
            isinstance(last, int | float) or (len(row) == 3 and last in _RELATIONS)
        )
        texts = [f"text_{n}" for n in range(len(row) - has_label)]
        return [*texts, *(["label"] if has_label else [])]

    def of_file(self, path: str, how: Reading) -> TaskData:
        if how.columns or file_kind(path) in TABLES:
            return super().of_file(path, how)

        def make(line: str) -> TaskExample:
            return TaskExample((checked_text(line, "its text").strip(),), None)

        return gather(path, filled_lines(path), make, how.skip, "a text a line")

    def of_table(self, table: Table, how: Reading) -> TaskData:
        header, label = table.header or (), how.label
        numbered = tuple(name for name in header if str(name).startswith("text_"))
        defaults = (*_RELATED_COLUMNS, *([numbered] if numbered else []))
        if label is None:
            label = next((name for name in LABEL_COLUMNS if name in header), None)
        how = dataclasses.replace(how, label=label, labelled=how.label is not None)
        chosen, answer = find_columns(table, how, defaults, labels=())
        return text_examples(table, how, chosen, answer, _number_or_class, may_be_blank=False)


def _is_text(row: object) -> bool:
    """Return whether a string is a text, not the name or pattern of a file."""
    if not isinstance(row, str) or isinstance(row, os.PathLike) or row.startswith("tfds:"):
        return False
    if os.path.exists(os.path.expanduser(row)):
        return False
    looks_like_a_path = os.sep in row or file_kind(row) or any(mark in row for mark in "*?[")
    return not looks_like_a_path or any(map(str.isspace, row))


def _number_or_class(found: object) -> str | float:
    """Return a number as a float, a class as its name."""
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise BadRow(f"its label must be a number or a class; got {found!r:.60}")
    try:
        number = float(found)
    except (ValueError, OverflowError):
        return checked_text(str(found), "its label")
    if not math.isfinite(number):
        raise BadRow(f"its label must be a finite number; got {found!r:.60}")
    return number
