"""The files of fine-tuning tasks to plain examples: one text, a pair of texts, or a choice.

Whatever the format, a row that can't be read stops with its file and line: a task that silently
lost rows would be scored on something else.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.parsers import expat

from tfnlp.data.labelled import _lines

# How the answer goes on from the premise: the question that COPA asks, as a conjunction.
_CONJUNCTIONS = {"cause": "because", "effect": "so"}


@dataclass(frozen=True)
class TaskExample:
    """One example of a task.

    Attributes:
      segments: its text, or its two texts.
      label: the name of its class; a float score; or, with `choices`, the index of the right one.
      choices: texts of which one goes best with `segments`; none in other tasks.
    """

    segments: tuple[str, ...]
    label: str | float | int
    choices: tuple[str, ...] = ()


def read_classes(path: str, columns: Sequence[str | int] | None = None) -> list[TaskExample]:
    """Texts with a class each.

    Args:
      path: a UTF-8 file; `.gz` is unpacked on the way.
      columns: None for lines of `label text`; else those of text and label, as in `read_pairs`.

    Raises:
      ValueError: a row without text or label, a file without examples or that is not UTF-8.
      FileNotFoundError: there is no such file.
      OSError: a damaged or truncated gzip file.
    """
    if columns is not None:
        _check_columns(columns, 2)
        return _not_empty([_example(path, n, row, False) for n, row in _rows(path, columns)], path)
    examples = []
    for number, line in enumerate(_lines(path), 1):
        label, _, text = line.strip().partition(" ")
        if label:
            examples.append(_example(path, number, (text, label), False))
    return _not_empty(examples, path)


def read_pairs(
    path: str,
    columns: Sequence[str | int] = ("sentence1", "sentence2", "label"),
    score: bool = False,
    drop: Sequence[str] = ("-",),
) -> list[TaskExample]:
    """Pairs of texts with a class or a score each.

    Tab-separated files are read literally, as GLUE's are meant: quotation marks are characters.

    Args:
      path: a UTF-8 file; `.gz` is unpacked on the way. With `.jsonl` (also `.jsonl.gz`) every line
        is a JSON object, else its fields lie between tabs.
      columns: those of both texts and of the label. Names: keys of the objects, or fields of the
        header, the first line. Numbers: fields of a file without header, from 0; there may be more.
      score: the label is a number.
      drop: labels of rows to leave out; SNLI has "-" where its annotators did not agree.

    Raises:
      ValueError: a row that lacks a column, has an empty text or, with `score`, a label that is no
        number; a header without a column; a file without examples or that is not UTF-8.
      FileNotFoundError: there is no such file.
      OSError: a damaged or truncated gzip file.
    """
    _check_columns(columns, 3)
    rows = ((n, row) for n, row in _rows(path, columns) if row[-1] not in drop)
    return _not_empty([_example(path, n, row, score) for n, row in rows], path)


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
      FileNotFoundError: there is no such file.
      OSError: a damaged or truncated gzip file.
    """
    if str(path).removesuffix(".gz").endswith(".xml"):
        return _not_empty(list(_copa(path)), path)
    examples = []
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        _, *texts, label = line.split("\t")
        texts = [text.strip() for text in texts]
        if len(texts) < 3 or not all(texts):
            raise ValueError(
                f"{path}, line {number}: expected category, text, two or more answers and the "
                f"index of the right one between tabs, none of them empty; got {line[:60]!r}"
            )
        if not (label.isdecimal() and int(label) < len(texts) - 1):
            raise ValueError(
                f"{path}, line {number}: the last field must be the index of one of "
                f"{len(texts) - 1} answers, from 0; got {label!r}"
            )
        examples.append(TaskExample((texts[0],), int(label), tuple(texts[1:])))
    return _not_empty(examples, path)


def _rows(path: str, columns: Sequence[str | int]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line number and the fields at `columns` of every line that is not blank."""
    objects = str(path).removesuffix(".gz").endswith(".jsonl")
    places = None if objects or isinstance(columns[0], str) else columns
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        if objects:
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{where}: not valid JSON ({error})") from error
            if not isinstance(row, dict) or any(name not in row for name in columns):
                raise ValueError(
                    f"{where}: expected a JSON object with {_listed(columns)}; got {line[:60]!r}"
                )
            yield number, tuple(str(row[name]) for name in columns)
            continue
        fields = line.split("\t")
        if places is None:
            if any(name not in fields for name in columns):
                raise ValueError(
                    f"{where}: expected a header with {_listed(columns)} between tabs; "
                    f"got {line[:60]!r}"
                )
            places = [fields.index(name) for name in columns]
            continue
        if len(fields) <= max(places):
            raise ValueError(
                f"{where}: expected {max(places) + 1} or more fields between tabs; got "
                f"{len(fields)}: {line[:60]!r}"
            )
        yield number, tuple(fields[place] for place in places)


def _example(path, number, row, score):
    """The example of a row of texts and, at its end, the label."""
    *texts, label = (field.strip() for field in row)
    if not all(texts) or not label:
        raise ValueError(f"{path}, line {number}: has an empty text or label: {row!r:.100}")
    if score:
        try:
            label = float(label)
        except ValueError:
            label = math.nan
        if not math.isfinite(label):
            raise ValueError(f"{path}, line {number}: the score must be a number; got {row[-1]!r}")
    return TaskExample(tuple(texts), label)


def _copa(path: str) -> Iterator[TaskExample]:
    """The items of a COPA file. Its DTD is not looked for."""
    parser = expat.ParserCreate()
    items, text = [], []  # of the items: (line, attributes, texts by tag)

    def start(tag, attributes):
        if tag == "item":
            items.append((parser.CurrentLineNumber, attributes, {}))
        text.clear()

    def end(tag):
        if tag in ("p", "a1", "a2") and items:
            items[-1][2][tag] = "".join(text).strip()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text.append
    try:
        parser.Parse("\n".join(_lines(path)), True)
    except expat.ExpatError as error:
        raise ValueError(f"{path}, line {error.lineno}: not valid XML ({error})") from error
    for line, attributes, texts in items:
        asked = attributes.get("asks-for")
        right = attributes.get("most-plausible-alternative")
        if asked not in _CONJUNCTIONS or right not in ("1", "2"):
            raise ValueError(
                f'{path}, line {line}: expected asks-for "cause" or "effect" and '
                f'most-plausible-alternative "1" or "2"; got {asked!r} and {right!r}'
            )
        if not all(texts.get(tag) for tag in ("p", "a1", "a2")):
            raise ValueError(f"{path}, line {line}: expected the texts p, a1 and a2; got {texts}")
        premise = f"{texts['p'].rstrip('.')} {_CONJUNCTIONS[asked]}"
        yield TaskExample((premise,), int(right) - 1, (texts["a1"], texts["a2"]))


def _check_columns(columns, count):
    kinds = {type(column) for column in columns}
    if len(columns) != count or kinds not in ({str}, {int}) or kinds == {int} and min(columns) < 0:
        raise ValueError(
            f"columns must be {count} names, or {count} numbers from 0; got {tuple(columns)!r}"
        )


def _listed(columns):
    return ", ".join(repr(column) for column in columns)


def _not_empty(examples, path):
    if not examples:
        raise ValueError(f"no examples in {path}; is it a file of this format?")
    return examples
