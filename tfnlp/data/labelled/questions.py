"""Questions about a passage, with answers that are parts of it: SQuAD 1.1 and 2.0."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from tfnlp.data.labelled.forms import RowForm
from tfnlp.data.labelled.rows import (
    BadRow,
    TaskData,
    checked_text,
    file_kind,
    file_lines,
    gather,
    json_rows,
    parse_json,
)
from tfnlp.data.labelled.tables import PARQUET, Reading, Row, Table


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the passage to answer it from.

    Attributes:
        id: of the question, unique.
        question: never empty.
        context: the passage.
        answers: (text, its start in `context`, in characters) of each annotator; () for a question
            that the passage does not answer, or if answers are not known.
    """

    id: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...] = ()


class QuestionRows(RowForm):
    """A question, the passage to answer it from, and its answers.

    All files but `.parquet` are JSON: that of SQuAD 1.1 or 2.0 (Rajpurkar et al. 2016, 2018), the
    list of its articles alone, or an object for each question, also one a line: `question`,
    `context` and `answers`, a list of `{"text": ..., "answer_start": ...}` or an object of two such
    lists; an empty one says that the context has no answer. Of a question without an `id` it is the
    number of its row.
    """

    expected: ClassVar[str] = "(question, context, answers)"
    fields: ClassVar[tuple[str, ...]] = ("question", "context", "answers")
    example: ClassVar[type] = Question
    label: ClassVar[str] = "answers"
    has_class_names: ClassVar[bool] = False
    has_columns: ClassVar[bool] = False

    def of_file(self, path: str, how: Reading) -> TaskData:
        if file_kind(path) == PARQUET:
            return super().of_file(path, how)
        content = parse_json("\n".join(file_lines(path)))
        if isinstance(content, dict) and _is_squad(content.get("data")):
            second = str(content.get("version", "")).lower().startswith(("v2", "2"))
            return _questions(path, _rows(content["data"]), how, second)
        if _is_squad(content) and any(isinstance(x, dict) and "paragraphs" in x for x in content):
            return _questions(path, _rows(content), how, may_lack=True)
        rows = list(json_rows(path))
        if any(isinstance(row, dict) and "context" in row for _, row in rows):
            return self.of_table(Table(path, None, rows), how)
        if isinstance(content, BadRow):
            raise ValueError(f"{path}, {content.where or 'line 1'}: {content}")
        raise ValueError(
            f'{path}: expected SQuAD\'s form, an object with a list "data", or objects with '
            '"question", "context" and "answers"'
        )

    def of_table(self, table: Table, how: Reading) -> TaskData:
        return _questions(table.source, _numbered(table.rows), how, may_lack=True)


def _is_squad(data: object) -> bool:
    """Return whether the list "data" has SQuAD's articles and no questions."""
    return isinstance(data, list) and not any(isinstance(x, dict) and "context" in x for x in data)


def _numbered(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield questions with an id, those without one by their number."""
    for number, (where, row) in enumerate(rows):
        if isinstance(row, dict) and row.get("id") is None:
            row = {**row, "id": str(number)}
        yield where, row


def _questions(source: str, rows: Iterable[Row], how: Reading, may_lack: bool = False) -> TaskData:
    """Return the questions of rows `{"id", "question", "context", "answers", "is_impossible"}`.

    `answers` is a list of `{"text", "answer_start"}` or a dict of two lists. With `may_lack`, an
    empty list without `is_impossible` is an unanswerable question too, as in the evaluation script
    of SQuAD 2.0.
    """
    seen = set()

    def make(row: dict) -> Question:
        name = row.get("id")
        name = checked_text(str(name) if type(name) is int else name, "its id")
        try:
            if name in seen:
                raise BadRow("another question has the same id")
            question = checked_text(row.get("question"), "its text")
            context = checked_text(row.get("context"), "its context")
            answers = _answers(row, context, how.labelled, may_lack)
        except BadRow as error:
            raise BadRow(str(error), f"question {name!r:.60}") from None
        seen.add(name)
        return Question(name, question, context, answers)

    return gather(source, rows, make, how.skip)


def _rows(articles: list) -> Iterator[tuple[str, dict | BadRow]]:
    """Yield the questions of SQuAD's articles, each with its place and its context."""
    for number, article in enumerate(articles, 1):
        where = f"article {number}"
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(paragraphs, list):
            yield where, BadRow('expected an object with a list "paragraphs"')
            continue
        for place, paragraph in enumerate(paragraphs, 1):
            inner = f"{where}, paragraph {place}"
            asked = paragraph.get("qas") if isinstance(paragraph, dict) else None
            if not isinstance(asked, list):
                yield inner, BadRow('expected an object with a "context" and a list "qas"')
                continue
            for count, row in enumerate(asked, 1):
                spot = f"{inner}, question {count}"
                if isinstance(row, dict):
                    yield spot, {**row, "context": paragraph.get("context")}
                else:
                    yield spot, BadRow(f"expected an object; got {row!r:.60}")


def _answers(
    row: dict, context: str, labelled: bool, may_lack: bool
) -> tuple[tuple[str, int], ...]:
    answers, impossible = row.get("answers"), row.get("is_impossible")
    if isinstance(answers, dict):
        sizes = {len(x) if isinstance(x, list) else None for x in answers.values()}
        if None in sizes or len(sizes) > 1:
            raise BadRow(f"the lists of answers have different lengths: {answers!r:.60}")
        columns = zip(*answers.values(), strict=True)
        answers = [dict(zip(answers, column, strict=True)) for column in columns]
    if impossible is not None and not isinstance(impossible, bool):
        raise BadRow(f"is_impossible must be true or false; got {impossible!r:.30}")
    if answers is None and (impossible or not labelled):
        return ()
    if not isinstance(answers, list):
        raise BadRow(f'expected a list "answers"; got {answers!r:.60}')
    if impossible and answers:
        raise BadRow("has answers and is_impossible")
    if not answers and labelled and not impossible and (impossible is False or not may_lack):
        raise BadRow('has no answers; if it can\'t be answered, set "is_impossible" to true')
    found = []
    for answer in answers:
        fields = answer if isinstance(answer, dict) else {}
        text, start = checked_text(fields.get("text"), "an answer"), fields.get("answer_start")
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise BadRow(f"answer_start must be a number of characters; got {start!r:.30}")
        if not context.startswith(text, start):
            there = context[start : start + len(text)]
            raise BadRow(
                f"the answer {text!r:.60} is not at character {start} of its context, where "
                f"{there!r:.60} stands"
            )
        found.append((text, start))
    return tuple(found)
