"""Multiple choice: a text and several continuations, one of which is right; COPA, CODAH, tables."""

from collections.abc import Iterator
from typing import ClassVar
from xml.parsers import expat

from tfnlp.data.labelled.examples import TaskExample, label_cell
from tfnlp.data.labelled.forms import RowForm
from tfnlp.data.labelled.rows import BadRow, TaskData, checked_text, file_kind, file_lines, gather
from tfnlp.data.labelled.tables import (
    JSON_KINDS,
    PARQUET,
    Reading,
    Table,
    cell,
    find_columns,
    tab_rows,
)

# The question of COPA as a conjunction between premise and answer.
_CONJUNCTIONS = {"cause": "because", "effect": "so"}

# The columns of a table of choices: a text, and a list of continuations.
_COLUMNS = tuple(
    (text, choices)
    for text in ("context", "premise", "question")
    for choices in ("choices", "endings", "answers")
)


class ChoiceRows(RowForm):
    """A text, its choices, and the index of the right one.

    `.xml` is COPA (Roemmele et al. 2011). The question is appended to the premise as a conjunction,
    "The runner wore shorts because"; answers are kept as they are, with capital letters. `.csv` and
    `.jsonl` are tables. Any other file is CODAH (Chen et al. 2019): category, text, answers, index
    of the right one, between tabs; with `text` it is a table, too.

    `text` is the column of the text and then those of the choices, or the one that lists them.
    None: context, premise or question (a context's question goes with it) and choices, endings or
    answers.
    """

    expected: ClassVar[str] = "(text, [choice, ...], index)"
    fields: ClassVar[tuple[str, ...]] = ("context", "choices", "label")
    example: ClassVar[type] = TaskExample
    has_class_names: ClassVar[bool] = False

    def of_file(self, path: str, how: Reading) -> TaskData:
        kind = file_kind(path)
        if kind == ".xml":
            items = _copa_items(path)
            return gather(path, items, lambda item: _copa(*item, how.labelled), how.skip)
        if kind in (*JSON_KINDS, PARQUET, ".csv") or how.text is not None:
            return super().of_file(path, how)

        def make(fields: list[str]) -> TaskExample:
            if len(fields) < 5:
                raise BadRow(
                    "expected category, text, two or more answers and the index of the right one "
                    f"between tabs; got {fields!r:.60}"
                )
            _, asked, *choices, index = fields
            return _choice(checked_text(asked, "its text").strip(), choices, index, how.labelled)

        return gather(path, tab_rows(path), make, how.skip)

    def of_table(self, table: Table, how: Reading) -> TaskData:
        chosen, answer = find_columns(table, how, _COLUMNS)
        if len(chosen) < 2:
            raise ValueError(
                f"text must name the column of the text and those of its choices; got {chosen!r}"
            )
        asks = how.text is None and chosen[0] != "question" and "question" in table.header

        def make(row: dict | list) -> TaskExample:
            texts = [checked_text(cell(row, chosen[0]), repr(chosen[0])).strip()]
            if asks:  # a passage and a question about it
                texts.append(checked_text(cell(row, "question"), "'question'").strip())
            choices = [cell(row, column) for column in chosen[1:]]
            if len(choices) == 1:
                choices = choices[0]
            index = label_cell(row, answer, how.labelled)
            return _choice(" ".join(texts), choices, index, how.labelled)

        labels = [] if answer is None else [answer]
        return gather(table.source, table.rows, make, how.skip, table.read_as(chosen, labels))


def _choice(text: str, choices: object, index: object, labelled: bool) -> TaskExample:
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
    """Yield the attributes and the texts by tag of a COPA file's items; its DTD is not read."""
    parser = expat.ParserCreate()
    items, text = [], []

    def start(tag: str, attributes: dict) -> None:
        if tag == "item":
            items.append((f"line {parser.CurrentLineNumber}", (attributes, {})))
        text.clear()

    def end(tag: str) -> None:
        if tag in ("p", "a1", "a2") and items:
            items[-1][1][1][tag] = "".join(text).strip()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = text.append
    try:
        parser.Parse("\n".join(file_lines(path)), True)
    except expat.ExpatError as error:
        raise ValueError(f"{path}, line {error.lineno}: not valid XML ({error})") from error
    yield from items


def _copa(attributes: dict, texts: dict, labelled: bool) -> TaskExample:
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
