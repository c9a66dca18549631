"""Rows of fine-tuning tasks that are Python objects, to examples."""

import os
from collections.abc import Callable, Sequence

from tfnlp.data.labelled.examples import TaskExample
from tfnlp.data.labelled.questions import Question, flat_question
from tfnlp.data.labelled.reading import (
    checked_reading,
    examples_of_table,
    has_class_names,
    in_bio,
    read_files,
)
from tfnlp.data.labelled.related_texts import fields_of, is_text
from tfnlp.data.labelled.role_sentences import RoleSentence
from tfnlp.data.labelled.rows import BadRow, TaskData, gather
from tfnlp.data.labelled.tables import Column, Reading, Table
from tfnlp.data.labelled.tagged_sentences import TaggedSentence
from tfnlp.data.rows import held, is_path, rows_of

# The columns that the fields of a tuple stand for, by their number.
_TEXTS = {2: ("text", "label"), 3: ("text_a", "text_b", "label")}
_FIELDS = {
    "classify": _TEXTS,
    "labels": {2: ("text", "labels"), 3: ("text_a", "text_b", "labels")},
    "similarity": _TEXTS,
    "choose": {2: ("context", "choices"), 3: ("context", "choices", "label")},
    "answer": {2: ("question", "context"), 3: ("question", "context", "answers")},
    "tag": {1: ("words",), 2: ("words", "tags")},
    "roles": {2: ("words", "predicate"), 3: ("words", "predicate", "tags")},
}
_EXPECTED = {
    "classify": "(text, class) or (text_a, text_b, class)",
    "labels": "(text, [label, ...]) or (text_a, text_b, [label, ...])",
    "similarity": "(text_a, text_b, number)",
    "choose": "(text, [choice, ...], index)",
    "answer": "(question, context, answers)",
    "tag": "([word, ...], [tag, ...])",
    "roles": "([word, ...], number of the predicate, [role, ...])",
    "embed": "a text, (text, its match, further texts ...) or (text, text, number or class)",
}
_LABELS = {
    "labels": "labels",
    "answer": "answers",
    "tag": "tags",
    "roles": "tags",
}  # column of a row; else label
# The class of an example, and the attribute that holds its label.
_EXAMPLES = {
    "answer": (Question, "answers"),
    "tag": (TaggedSentence, "tags"),
    "roles": (RoleSentence, "tags"),
}

_Record = dict | list


def examples_of(
    data: object,
    task: str,
    *,
    text: Column | Sequence[Column] | None = None,
    label: Column | Sequence[Column] | None = None,
    skip: bool = False,
    labelled: bool = True,
    drop: Sequence[str] = ("-",),
    name: str = "data",
    separator: str | None = None,
) -> TaskData:
    """Return the examples of a task, from files, data sets or Python objects.

    `data` is a path, a glob, a `tfds:` name or a list of them (see `read_task`), or holds rows:
    a list (or any iterable) of tuples or dicts, a dict of columns, a table of pandas, polars or
    Arrow, a Hugging Face data set, whose `ClassLabel`s become names, or a `tf.data.Dataset` of
    tuples or dicts, batched or not; or examples, as `read_task` returns them. A row is by task

        classify    (text, class) or (text_a, text_b, class)
        labels      (text, [label, ...]) or (text_a, text_b, [label, ...]); in dicts also a number
                    0 or 1 for each label
        similarity  (text_a, text_b, number)
        choose      (text, [choice, ...], index of the right one)
        answer      (question, context, answers)
        tag         ([word, ...], [tag, ...])
        roles       ([word, ...], number of the predicate from 0, [role, ...])
        embed       text; (text, text that belongs to it, texts that do not ...); (text_a, text_b,
                    number); or (premise, hypothesis, "entailment", "neutral" or "contradiction")

    or a dict with the keys that a line of `.jsonl` has. `answers` is a list of
    `{"text": ..., "answer_start": ...}`, as in SQuAD, or a dict of two such lists; an empty one
    says that the context has no answer. A question without an `id` gets the number of its row.

    With `labelled=False` the last field may be left out, and a row may also be a string: a text, or
    for "tag" words with spaces between. Two strings are then two texts. A list of strings is a list
    of such rows; give paths one by one or as `pathlib.Path`s.

    Args:
        data: see above.
        task: one of "classify", "labels", "similarity", "choose", "answer", "tag", "roles",
            "embed".
        text: the column or columns of the texts, see `read_task`; for tuples numbers, from 0.
        label: the column of the label; for tuples a number. For "labels" also a list of columns.
        skip: leave out rows that can't be read and write them to `skipped`.
        labelled: False: labels may be missing.
        drop: labels of rows to leave out ("classify" and "similarity").
        name: the argument that `data` was given as, for messages.
        separator: of "labels", see `read_task`.

    Raises:
        ValueError: as `read_task`; the message names `name` and the row, from 0.
        FileNotFoundError, OSError: as `read_task`.
    """
    how = checked_reading(task, Reading(text, label, skip, labelled, drop, separator))
    if is_path(data):
        return read_files(task, [data], how)
    data = held(data)
    first = data[0] if isinstance(data, list | tuple) and data else None
    texts_alone = task == "embed" and is_text(first)
    if is_path(first) and not texts_alone and (labelled or isinstance(first, os.PathLike)):
        return read_files(task, _paths(data, task, name), how)
    rows = list(rows_of(data, name, has_class_names(task)))
    if isinstance(rows[0][1], (TaskExample, Question, TaggedSentence)):
        return in_bio(task, gather(name, rows, _checker(task, labelled), skip))
    records = [(where, _record(row, task, labelled)) for where, row in rows]
    table = _table(records, task, name, labelled, by_number=bool(how.columns))
    return in_bio(task, examples_of_table(task, table, how))


def _paths(paths: Sequence[object], task: str, name: str) -> list[str | os.PathLike]:
    for number, row in enumerate(paths):
        if not is_path(row):
            raise ValueError(
                f"{name}: row 0 is a string, so a path, but row {number} is not; the rows of "
                f"{task} are {_EXPECTED[task]} or dicts"
            )
    return list(paths)


def _checker(task: str, labelled: bool) -> Callable[[object], object]:
    """Return a function that returns an example of the task, or raises `BadRow`."""
    kind, attribute = _EXAMPLES.get(task, (TaskExample, "label"))

    def check(row: object) -> object:
        if not isinstance(row, kind):
            raise BadRow(f"the task {task} has examples of {kind.__name__}; got {row!r:.60}")
        if labelled and task != "embed" and getattr(row, attribute) is None:
            raise BadRow(f"has no {attribute}")
        return row

    return check


def _record(row: object, task: str, labelled: bool) -> _Record | BadRow:
    """Return the fields of a row by name or by number."""
    try:
        return _fields(row, task, labelled)
    except BadRow as error:
        return error


def _fields(row: object, task: str, labelled: bool) -> _Record | BadRow:
    if isinstance(row, BadRow):
        return row
    if isinstance(row, list) and len(row) == 2 and isinstance(row[0], dict):
        # Keras' form of a data set: (features, label).
        row = {**row[0], _LABELS.get(task, "label"): row[1]}
    if isinstance(row, dict):
        return flat_question(row) if task == "answer" else row
    if isinstance(row, str) and (not labelled or task == "embed"):
        return [row.split() if task == "tag" else row]
    if not isinstance(row, list):
        raise BadRow(f"expected {_EXPECTED[task]} or a dict; got {row!r:.60}")
    if task == "tag" and not labelled and all(isinstance(word, str) for word in row):
        return [row]  # words without tags
    return row


def _table(
    records: list[tuple[str, _Record | BadRow]],
    task: str,
    name: str,
    labelled: bool,
    by_number: bool,
) -> Table:
    """Return rows as a table: the first good one decides what its columns are."""
    first = next((row for _, row in records if not isinstance(row, BadRow)), None)
    if first is None:
        where, bad = records[0]
        raise ValueError(f"{name}, {where}: {bad}")
    header, names = None, None
    if isinstance(first, dict):
        header = list(first)
    elif not by_number:
        header = names = _columns(first, task, name, labelled)
    rows = []
    for number, (where, row) in enumerate(records):
        if not isinstance(row, (type(first), BadRow)):
            row = BadRow(f"expected a {_kind(first)}, as the rows before it; got a {_kind(row)}")
        elif names is not None and isinstance(row, list):
            if len(row) == len(names):
                row = dict(zip(names, row, strict=True))
            else:
                row = BadRow(f"has {len(row)} fields; expected {len(names)}, as in the first row")
        if task == "answer" and isinstance(row, dict) and row.get("id") is None:
            row = {**row, "id": str(number)}
        rows.append((where, row))
    return Table(name, header, rows)


def _columns(row: list, task: str, name: str, labelled: bool) -> list[str]:
    """Return the names of the fields of a tuple."""
    if task == "embed" and row:
        return fields_of(row)
    if task in ("classify", "labels", "similarity") and not labelled:
        if len(row) == 1:
            return ["text"]
        if len(row) == 2 and isinstance(row[1], str):
            return ["text_a", "text_b"]
    columns = _FIELDS[task].get(len(row))
    if columns is None:
        raise ValueError(
            f"{name}: a row of {task} must be {_EXPECTED[task]} or a dict; got {row!r:.80}"
        )
    return list(columns)


def _kind(row: _Record) -> str:
    return "dict" if isinstance(row, dict) else "tuple"
