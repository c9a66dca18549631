"""Rows of sentences with a tag for each word, or the role that it has for a predicate.

From files of columns, tables, JSON and spans.
"""

import abc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tfnlp.data.labelled.column_files import (
    Lines,
    checked_tag,
    columns_file,
    conllu_file,
    conllu_sentences,
    conllu_words,
    is_conllu,
)
from tfnlp.data.labelled.forms import Record, RowForm
from tfnlp.data.labelled.rows import BadRow, TaskData, checked_text, file_kind, gather
from tfnlp.data.labelled.tables import (
    JSON_KINDS,
    PARQUET,
    Column,
    Reading,
    Row,
    Table,
    cell,
    find_columns,
    read_table,
)
from tfnlp.data.labelled.tag_schemes import (
    OUTSIDE,
    TaggedSentence,
    bio_of_spans,
    read_as_bio,
    split_sentence,
)

WORD_COLUMNS = (("words",), ("tokens",))
TAG_COLUMNS = ("tags", "labels", "ner_tags")
SPAN_COLUMNS = ("spans", "entities")
OF_TEXT = ("label", "labels")  # further names of the spans of a text
_OF_SPAN = (("start", "start_offset"), ("end", "end_offset"), ("label", "labels", "type"))
_TABLE_WORDS, _TABLE_TAGS = (("word",), ("token",)), ("tag", "ner", "ner_tag", "label")
_TEXT = ("text",)
PREDICATE = "predicate"
_SENSE = 10  # the column after the ten of CoNLL-U

Span = tuple[int, int, str]


class WordRows(RowForm):
    """Words with a tag for each. Tags of entities are read as BIO, see `read_as_bio`.

    Tags that are all "O", "B-..." or "I-..." mark entities: IOB1 is read as BIO, and so are BIOES,
    BILOU and other schemes with E, L, S, U, M or W in place of B or I.
    """

    label: ClassVar[str] = "tags"

    def of_file(self, path: str, how: Reading) -> TaskData:
        if file_kind(path) in (*JSON_KINDS, PARQUET):
            return super().of_file(path, how)
        return self.of_lines(path, how)

    @abc.abstractmethod
    def of_lines(self, path: str, how: Reading) -> TaskData:
        """Return the examples of a file with a line for each word."""

    def finished(self, data: TaskData) -> TaskData:
        examples, scheme = read_as_bio(data.examples)
        return replace(data, examples=examples, scheme=scheme)

    def understood(self, data: TaskData) -> str:
        """Return columns, scheme, and three words with their tags, of an entity if there is one."""
        tags = {tag for e in data.examples for tag in e.tags or ()}
        scheme = data.scheme or f"{len(tags):,} tags that mark no entities"
        tagged = [e for e in data.examples if e.tags]
        example = next((e for e in tagged if {*e.tags} != {OUTSIDE}), tagged[0])
        first = next((n for n, tag in enumerate(example.tags) if tag != OUTSIDE), 0)
        first = max(0, min(first, len(example.tags) - 3))
        pairs = zip(example.words, example.tags, strict=True)
        shown = " ".join(f"{word}/{tag}" for word, tag in [*pairs][first : first + 3])
        return "; ".join(filter(None, [super().understood(data), scheme, shown]))


class TagRows(WordRows):
    """Words with a tag for each.

    `.conllu` is CoNLL-U, whose words are the syntactic ones: multiword tokens (`1-2`) and empty
    nodes (`1.1`) are skipped, see universaldependencies.org/format.html. `.jsonl` has `words` or
    `tokens` and `tags`, or `spans` in their place, see `_span_row`. `.csv` has a row for each word
    and names of columns, of which one begins with "sentence": a value other than the one before it
    begins a sentence, an empty one goes on with it. All other files are CoNLL: one word per line,
    columns between tabs or spaces, blank lines between sentences; or CoNLL-U of another name, by
    its first sentence. A header, -DOCSTART- and lines that begin with "#" and are no words are
    ignored; a bad line spoils its sentence.

    `text` is the column of the words; None: the first that does not count, of JSON words or tokens.
    `label` is that of the tags: of CoNLL a number, None the last; of CoNLL-U "upos" (also None),
    "xpos" or a number; of JSON and TFDS None: tags, labels or ner_tags.
    """

    expected: ClassVar[str] = "([word, ...], [tag, ...])"
    fields: ClassVar[tuple[str, ...]] = ("words", "tags")
    example: ClassVar[type] = TaggedSentence

    def fields_of(self, row: object, labelled: bool) -> Record:
        if not labelled and isinstance(row, list) and all(isinstance(x, str) for x in row):
            return [row]  # words without tags
        return super().fields_of(row, labelled)

    def of_lines(self, path: str, how: Reading) -> TaskData:
        text, label = how.text, how.label
        if file_kind(path) == ".csv":
            sentences = list(_table_sentences(read_table(path, how.columns), how))
            table = Table(path, ["words", "tags"], sentences)
            return self.of_table(table, replace(how, text=None, label=None))
        if file_kind(path) == ".conllu" or text is None and is_conllu(path):
            if text is not None:
                raise ValueError(
                    f"{path}: the words of CoNLL-U are its column FORM; leave text out"
                )
            return conllu_file(path, "upos" if label is None else label, how)
        if text is not None and len(text) != 1:
            raise ValueError(f"{path}: text must be one column, that of the words; got {text!r}")
        return columns_file(path, how)

    def of_table(self, table: Table, how: Reading) -> TaskData:
        return gather(table.source, table.rows, sentence_maker(table, how), how.skip)


def sentence_maker(table: Table, how: Reading) -> Callable[[dict | list], TaggedSentence]:
    """Return what makes the sentence of a row of a table, from words or from a text."""
    if not how.columns and _has_spans(table.header):
        return lambda row: _span_row(row, how)
    words, answer = _tag_columns(table, how)
    return lambda row: _tagged_words(row, words, answer, how)


def _tag_columns(table: Table, how: Reading) -> tuple[Column, Column | None]:
    """Return the columns of words and tags of a table, see `find_columns`."""
    columns = WORD_COLUMNS if how.labelled else (*WORD_COLUMNS, _TEXT)
    header = {*(table.header or ())}
    if not how.labelled and header >= {*_TEXT} and not header & {*(how.text or ())}:
        how = replace(how, text=None)  # the columns of a run that was trained on words
    chosen, answer = find_columns(table, how, columns, TAG_COLUMNS)
    if len(chosen) != 1:
        raise ValueError(
            f"{table.source}: text must be one column, that of the words; got {chosen!r}"
        )
    return chosen[0], answer


def _tagged_words(
    row: dict | list, column: Column, answer: Column | None, how: Reading
) -> TaggedSentence:
    """Return the sentence of a row with a list of words and one of tags, or of a text to tag."""
    words = cell(row, column)
    if isinstance(words, str) and not how.labelled:
        return split_sentence(checked_text(words, f"{column!r}", True), how.splitter)
    words = _words(words, column)
    tags = row.get(answer) if answer is not None else None
    if tags is None and not how.labelled:
        return TaggedSentence(words, None)
    if not isinstance(tags, list) or len(tags) != len(words):
        count = f"{len(tags)} tags" if isinstance(tags, list) else f"{tags!r:.60}"
        raise BadRow(f"expected a list of {len(words)} tags, one for each word; got {count}")
    if any(isinstance(tag, bool) or not isinstance(tag, (str, int)) for tag in tags):
        raise BadRow(f"tags must be names or numbers; got {tags!r:.60}")
    return TaggedSentence(words, tuple(checked_tag(str(tag)) for tag in tags))


def _words(words: object, column: Column) -> tuple[str, ...]:
    if not isinstance(words, list) or not words:
        raise BadRow(f"{column!r} must be a list of one word or more; got {words!r:.60}")
    return tuple(checked_text(word, "a word") for word in words)


def _table_sentences(table: Table, how: Reading) -> Iterator[Row]:
    """Yield the words and tags of each sentence of a table with a row for each word."""
    (word, *_), tag = find_columns(table, how, _TABLE_WORDS, _TABLE_TAGS)
    marks = [name for name in table.header or () if str(name).lower().startswith("sentence")]
    if not marks:
        raise ValueError(
            f"{table.source}: no column says where sentences begin, such as 'Sentence #'; add one"
        )
    sentence: dict[str, list] = {}
    last = begin = None
    for where, row in table.rows:
        mark = None if isinstance(row, BadRow) else row.get(marks[0], "").strip()
        if sentence and mark != last and mark != "":
            yield begin, sentence
            sentence = {}
        if mark is None:
            yield where, row
            continue
        if not sentence:
            begin, last = where, mark
        sentence.setdefault("words", []).append(row.get(word))
        if tag is not None:
            sentence.setdefault("tags", []).append(row.get(tag))
    if sentence:
        yield begin, sentence


def _has_spans(header: Sequence[Any] | None) -> bool:
    """Return whether the rows of a table with these columns have spans in place of tags."""
    columns = set(header or ())
    if columns & {"words", "tokens"}:
        return bool(columns & {*SPAN_COLUMNS}) and not columns & {*TAG_COLUMNS}
    return "text" in columns and bool(columns & {*SPAN_COLUMNS, *OF_TEXT})


def _span_row(row: dict, how: Reading) -> TaggedSentence:
    """Return the sentence of a row, its spans as BIO tags.

    A row has `tokens` or `words`, a list of strings, and spans of them; or `text` and spans of its
    characters, of which one that begins or ends within a word is widened to it. A span is
    `[start, end, type]` or `{"start": ..., "end": ..., "label": ...}` (also `start_offset`,
    `end_offset` and `labels`, a list of one), its end exclusive, in `spans` or `entities`, of a
    text also in `label` or `labels`.
    """
    tokens = next((row[name] for name in ("tokens", "words") if row.get(name) is not None), None)
    columns = SPAN_COLUMNS if tokens is not None else (*SPAN_COLUMNS, *OF_TEXT)
    column = next((name for name in columns if row.get(name) is not None), None)
    spans = None
    if column is not None:
        if not isinstance(row[column], list):
            raise BadRow(f"{column!r} must be a list of spans; got {row[column]!r:.60}")
        spans = [_span(span) for span in row[column]]
    elif how.labelled:
        raise BadRow(f"has no {SPAN_COLUMNS[0]!r}; expected a list, empty if there are none")
    if tokens is None:
        text = checked_text(row.get("text"), "'text'", not how.labelled)
        found = split_sentence(text, how.splitter)
        places = found.places()
        spans = None if spans is None else [_of_words(s, places, found.text) for s in spans]
    else:
        found = TaggedSentence(_words(tokens, "tokens"), None)
    if spans is None:
        return found
    try:
        return replace(found, tags=bio_of_spans(len(found.words), spans))
    except ValueError as error:
        raise BadRow(str(error)) from error


def _span(span: object) -> Span:
    """Return the start, the end and the type of a span."""
    if isinstance(span, dict):  # as spaCy, doccano and Label Studio write them
        found = [[span[n] for n in names if n in span][:1] or [None] for names in _OF_SPAN]
        span = [value for (value,) in found]
        if isinstance(span[2], list) and len(span[2]) == 1:
            (span[2],) = span[2]
    if not isinstance(span, list) or len(span) != 3:
        raise BadRow(f"a span must be [start, end, type]; got {span!r:.60}")
    start, end, kind = span
    if any(isinstance(x, bool) or not isinstance(x, int) for x in (start, end)):
        raise BadRow(f"start and end of a span must be whole numbers; got {span!r:.60}")
    return start, end, checked_text(kind, "the type of a span")


def _of_words(span: Span, places: Sequence[tuple[int, int]], text: str) -> Span:
    """Return a span of characters as one of the words that it has characters of."""
    start, end, kind = span
    if not 0 <= start < end <= len(text):
        raise BadRow(
            f"the span [{start}, {end}, {kind!r}] is not within its {len(text)} characters; the "
            "end is that of the last character plus 1"
        )
    inside = [i for i, (first, last) in enumerate(places) if first < end and last > start]
    if not inside:
        raise BadRow(f"the span [{start}, {end}, {kind!r}] holds only white space")
    return inside[0], inside[-1] + 1, kind


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
        rows = (r for where, lines in sentences for r in _role_rows(where, lines, how.labelled))
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


def _role_rows(
    where: str, lines: Lines, labelled: bool
) -> Iterator[tuple[str, RoleSentence | BadRow]]:
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
