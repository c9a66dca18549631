"""Sentences with a predicate, and the role that each word has for it (semantic role labelling)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tfnlp.data.labelled.column_files import (
    Lines,
    conllu_sentences,
    conllu_words,
    is_conllu,
)
from tfnlp.data.labelled.rows import BadRow, TaskData, file_kind, gather
from tfnlp.data.labelled.tables import Reading, Table, cell
from tfnlp.data.labelled.tag_rows import WordRows, sentence_maker
from tfnlp.data.labelled.tag_schemes import OUTSIDE, TaggedSentence

PREDICATE = "predicate"
_SENSE = 10  # the column after the ten of CoNLL-U


@dataclass(frozen=True, slots=True)
class RoleSentence(TaggedSentence):
    """The words of a sentence, the role of each or None, and which word is the predicate."""

    predicate: int


class RoleRows(WordRows):
    """Words, the number of the predicate among them from 0, and the role of each for it.

    `.jsonl` has `words`, `predicate` and `tags`, or spans as `TagRows` reads them. In `.conllu`,
    after the ten columns of CoNLL-U, follow the sense of a word that is a predicate, else "_", and
    for each predicate of the sentence, in order, a column of roles, "_" for none (Universal
    Propositions 1.0); it gives an example for each predicate.
    """

    expected: ClassVar[str] = "([word, ...], number of the predicate, [role, ...])"
    fields: ClassVar[tuple[str, ...]] = ("words", "predicate", "tags")
    example: ClassVar[type] = RoleSentence

    def of_lines(self, path: str, how: Reading) -> TaskData:
        if file_kind(path) != ".conllu" and not is_conllu(path):
            raise ValueError(
                f"{path}: roles are read from .conllu with a column of predicates, or .jsonl with "
                "words, predicate and tags"
            )
        if how.columns:
            raise ValueError(
                f"{path}: the columns of CoNLL-U with roles are fixed; leave text and label out"
            )
        sentences = conllu_sentences(path)
        rows = (r for where, lines in sentences for r in _rows(where, lines, how.labelled))
        return gather(path, rows, lambda example: example, how.skip)

    def of_table(self, table: Table, how: Reading) -> TaskData:
        sentence = sentence_maker(table, how)
        if table.header is not None and PREDICATE not in table.header:
            raise ValueError(
                f"{table.source}: no column {PREDICATE!r}, the number of the predicate among the "
                "words, from 0"
            )

        def make(row: dict | list) -> RoleSentence:
            found = sentence(row)
            place = cell(row, PREDICATE)
            if isinstance(place, bool) or not isinstance(place, int):
                raise BadRow(
                    f"{PREDICATE!r} must be the number of a word, from 0; got {place!r:.60}"
                )
            if not 0 <= place < len(found.words):
                raise BadRow(f"{PREDICATE!r} is {place}; the words are 0 to {len(found.words) - 1}")
            return RoleSentence(found.words, found.tags, place, text=found.text)

        return gather(table.source, table.rows, make, how.skip)


def _rows(where: str, lines: Lines, labelled: bool) -> Iterator[tuple[str, RoleSentence | BadRow]]:
    """Yield the examples of a sentence, or the reason why there are none."""
    try:
        words = [(n, _filled(fields)) for n, fields in conllu_words(lines, _SENSE + 1)]
        places = [place for place, (_, f) in enumerate(words) if f[_SENSE] != "_"]
        for number, fields in words:
            found = len(fields) - 1 - _SENSE
            if found != len(places) and (labelled or found):
                raise BadRow(
                    f"expected {len(places)} columns of roles, as the sentence has predicates; got "
                    f"{found}",
                    f"line {number}",
                )
        forms = tuple(fields[1] for _, fields in words)
        known = all(len(fields) > _SENSE + 1 for _, fields in words)
        for column, place in enumerate(places, _SENSE + 1):
            tags = None
            if known:
                tags = tuple(OUTSIDE if f[column] == "_" else f[column] for _, f in words)
            yield where, RoleSentence(forms, tags, place)
    except BadRow as error:
        yield where, error


def _filled(fields: list[str]) -> list[str]:
    """Return the fields of a word, without empty ones at the end, others of roles as "_"."""
    count = len(fields)
    while count > _SENSE + 1 and not fields[count - 1]:
        count -= 1
    return [*fields[:_SENSE], *[field or "_" for field in fields[_SENSE:count]]]
