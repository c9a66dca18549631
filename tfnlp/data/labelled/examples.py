"""The files of fine-tuning tasks to plain examples: one text, a pair of texts, or a choice.

Whatever the format, a row that can't be read stops with its file and line: a task that silently
lost rows would be scored on something else. `tfnlp.data.read_task` can write them down instead.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.parsers import expat

from tfnlp.data.labelled.rows import (
    BadRow,
    LeftOut,
    TaskData,
    checked_text,
    file_kind,
    file_lines,
    gather,
)
from tfnlp.data.labelled.tables import (
    JSON_KINDS,
    TEXT_COLUMNS,
    Column,
    cell,
    find_columns,
    read_table,
)

# How the answer goes on from the premise: the question that COPA asks, as a conjunction.
_CONJUNCTIONS = {"cause": "because", "effect": "so"}

# Of a table of choices: a text, and a list of the ways in which it may go on.
_CHOICE_COLUMNS = tuple(
    (text, choices)
    for text in ("context", "premise", "question")
    for choices in ("choices", "endings", "answers")
)


@dataclass(frozen=True)
class TaskExample:
    """One example of a task.

    Attributes:
        segments: its text, or its two texts.
        label: the name of its class; a float score; or, with `choices`, the index of the right one.
            None where it is not known.
        choices: texts of which one goes best with `segments`; none in other tasks.
    """

    segments: tuple[str, ...]
    label: str | float | int | None
    choices: tuple[str, ...] = ()


def read_classes(path: str, columns: Sequence[str | int] | None = None) -> list[TaskExample]:
    """Texts with a class each.

    Args:
        path: a UTF-8 file; `.gz` is unpacked on the way.
        columns: None for lines of `label text`; else those of text and label, as in `read_pairs`.

    Raises:
        ValueError: a row without text or label, a file without examples or that is not UTF-8.
        FileNotFoundError, OSError: no such file; a folder; a damaged or truncated gzip file.
    """
    if columns is None:
        return labelled_lines(path).examples
    _check_columns(columns, 2)
    return table_file("classify", path, [columns[0]], columns[1], drop=()).examples


def read_pairs(
    path: str,
    columns: Sequence[str | int] = ("sentence1", "sentence2", "label"),
    score: bool = False,
    drop: Sequence[str] = ("-",),
) -> list[TaskExample]:
    """Pairs of texts with a class or a score each.

    Args:
        path: a table, see `tfnlp.data.read_task`.
        columns: those of both texts and of the label. Names: keys of the objects, or fields of the
            header, the first line. Numbers: fields of a file without header, from 0; there may be
            more.
        score: the label is a number.
        drop: labels of rows to leave out; SNLI has "-" where its annotators did not agree.

    Raises:
        ValueError: a row that lacks a column, has an empty text or, with `score`, a label that is
            no number; a header without a column; a file without examples or that is not UTF-8.
        FileNotFoundError, OSError: no such file; a folder; a damaged or truncated gzip file.
    """
    _check_columns(columns, 3)
    task = "similarity" if score else "classify"
    return table_file(task, path, list(columns[:2]), columns[2], drop=drop).examples


def read_choices(path: str) -> list[TaskExample]:
    """A text and the ways in which it may go on, one of them right.

    `.xml` is COPA (Roemmele et al. 2011). Its premise gets the question as a conjunction,
    "The runner wore shorts because", which its answers go on from; their own first letters stay.
    Any other file is CODAH (Chen et al. 2019): category, text, answers, index of the right one,
    between tabs.

    Args:
        path: a UTF-8 file; `.gz` is unpacked on the way.

    Raises:
        ValueError: a row that is not of this form, a file without examples, not UTF-8 or not XML.
        FileNotFoundError, OSError: no such file; a folder; a damaged or truncated gzip file.
    """
    return choice_file(path).examples


def table_file(task, path, text=None, label=None, skip=False, labelled=True, drop=("-",)):
    """`table_examples` of a `.tsv`, `.csv` or `.jsonl` file."""
    header, rows = read_table(path, text, label)
    return table_examples(task, path, header, rows, text, label, skip, labelled, drop)


def table_examples(
    task: str,
    source: str,
    header: list | None,
    rows,
    text: list[Column] | None,
    label: Column | None,
    skip: bool = False,
    labelled: bool = True,
    drop: Sequence[str] = ("-",),
) -> TaskData:
    """The examples of a table: see `tfnlp.data.read_task`, and `read_table` for header and rows."""
    defaults = _CHOICE_COLUMNS if task == "choose" else TEXT_COLUMNS
    chosen, answer = find_columns(source, header, text, label, labelled, defaults)
    if task == "choose":
        if len(chosen) < 2:
            raise ValueError(
                f"text must name the column of the text and those of its choices; got {chosen!r}"
            )
        asks = text is None and chosen[0] != "question" and "question" in header

        def make(row):
            texts = [checked_text(cell(row, chosen[0]), repr(chosen[0])).strip()]
            if asks:  # a passage and what is asked of it
                texts.append(checked_text(cell(row, "question"), "'question'").strip())
            choices = [cell(row, column) for column in chosen[1:]]
            if len(choices) == 1:
                choices = choices[0]
            index = _label_cell(row, answer, labelled)
            return _choice(" ".join(texts), choices, index, labelled)

    else:
        if len(chosen) > 2:
            raise ValueError(f"text must name one or two columns; got {chosen!r}")

        def make(row):
            texts = [checked_text(cell(row, column), f"text {column!r}") for column in chosen]
            found = _label_cell(row, answer, labelled)
            if isinstance(found, str) and found in drop:
                if labelled:
                    raise LeftOut(f"its label {found!r} is one to leave out")
                found = None
            if found is not None:
                found = _score(found) if task == "similarity" else _class_name(found)
            return TaskExample(tuple(value.strip() for value in texts), found)

    return gather(source, rows, make, skip)


def labelled_lines(path: str, skip: bool = False, labelled: bool = True) -> TaskData:
    """Examples of lines `label text`; with `labelled=False`, of lines that are texts."""

    def make(line):
        found, _, text = line.partition(" ") if labelled else (None, "", line)
        return TaskExample((checked_text(text, "its text").strip(),), found)

    rows = ((f"line {n}", line.strip()) for n, line in enumerate(file_lines(path), 1))
    return gather(path, ((where, line) for where, line in rows if line), make, skip)


def choice_file(path, text=None, label=None, skip=False, labelled=True) -> TaskData:
    """Examples with choices: COPA, CODAH, or a table if it is JSON, CSV or `text` is given."""
    kind = file_kind(path)
    if kind == ".xml":
        return gather(path, _copa_items(path), lambda item: _copa(*item, labelled), skip)
    if kind in (*JSON_KINDS, ".csv") or text is not None:
        return table_file("choose", path, text, label, skip, labelled)

    def make(line):
        fields = line.split("\t")
        if len(fields) < 5:
            raise BadRow(
                "expected category, text, two or more answers and the index of the right one "
                f"between tabs; got {line[:60]!r}"
            )
        _, asked, *choices, index = fields
        return _choice(checked_text(asked, "its text").strip(), choices, index, labelled)

    rows = ((f"line {n}", line) for n, line in enumerate(file_lines(path), 1) if line.strip())
    return gather(path, rows, make, skip)


def _label_cell(row, column, labelled):
    """The label of a row as it stands there, None if it has none."""
    if column is None:
        return None
    try:
        found = cell(row, column)
    except BadRow:
        if labelled:
            raise
        return None
    found = found.strip() if isinstance(found, str) else found
    if found is None or found == "":
        if labelled:
            raise BadRow("its label is empty")
        return None
    return found


def _class_name(found):
    if not isinstance(found, (str, int, float)):
        raise BadRow(f"its label must be a name; got {found!r:.60}")
    return checked_text(str(found), "its label")


def _score(found):
    try:
        score = math.nan if isinstance(found, bool) else float(found)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise BadRow(f"the score must be a number; got {found!r:.60}")
    return score


def _choice(text, choices, index, labelled):
    """An example with choices."""
    if not isinstance(choices, list) or len(choices) < 2:
        raise BadRow(f"expected two or more choices; got {choices!r:.60}")
    choices = tuple(checked_text(choice, "a choice").strip() for choice in choices)
    found = index.strip() if isinstance(index, str) else index
    if not labelled and found in (None, "", "-", "-1", -1):
        return TaskExample((text,), None, choices)
    if isinstance(found, str) and found.isascii() and found.isdecimal() and len(found) < 10:
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < len(choices):
        raise BadRow(
            f"its label must be the index of one of {len(choices)} choices, from 0; "
            f"got {index!r:.60}"
        )
    return TaskExample((text,), found, choices)


def _copa_items(path: str) -> Iterator[tuple[str, tuple[dict, dict]]]:
    """The attributes of a COPA file's items, and their texts by tag. Its DTD is not looked for."""
    parser = expat.ParserCreate()
    items, text = [], []

    def start(tag, attributes):
        if tag == "item":
            items.append((f"line {parser.CurrentLineNumber}", (attributes, {})))
        text.clear()

    def end(tag):
        if tag in ("p", "a1", "a2") and items:
            items[-1][1][1][tag] = "".join(text).strip()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text.append
    try:
        parser.Parse("\n".join(file_lines(path)), True)
    except expat.ExpatError as error:
        raise ValueError(f"{path}, line {error.lineno}: not valid XML ({error})") from error
    yield from items


def _copa(attributes, texts, labelled):
    asked, right = attributes.get("asks-for"), attributes.get("most-plausible-alternative")
    unknown = right is None and not labelled
    if asked not in _CONJUNCTIONS or (right not in ("1", "2") and not unknown):
        raise BadRow(
            'expected asks-for "cause" or "effect" and most-plausible-alternative "1" or "2"; '
            f"got {asked!r:.30} and {right!r:.30}"
        )
    if not all(texts.get(tag) for tag in ("p", "a1", "a2")):
        raise BadRow(f"expected the texts p, a1 and a2; got {texts!r:.100}")
    premise = f"{texts['p'].rstrip('.')} {_CONJUNCTIONS[asked]}"
    label = None if unknown else int(right) - 1
    return TaskExample((premise,), label, (texts["a1"], texts["a2"]))


def _check_columns(columns, count):
    kinds = {type(column) for column in columns}
    if len(columns) != count or kinds not in ({str}, {int}) or kinds == {int} and min(columns) < 0:
        raise ValueError(
            f"columns must be {count} names, or {count} numbers from 0; got {tuple(columns)!r}"
        )
