"""Sentences with a tag for each word, from files of CoNLL columns, CoNLL-U, JSON and spans."""

import abc
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tfnlp.data.labelled.forms import Record, RowForm
from tfnlp.data.labelled.rows import (
    BadRow,
    TaskData,
    checked_text,
    file_kind,
    file_lines,
    gather,
)
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
from tfnlp.data.labelled.tag_schemes import OUTSIDE, bio_of_spans, read_as_bio, scheme_of
from tfnlp.text.words import word_places

WORD_COLUMNS = (("words",), ("tokens",))
TAG_COLUMNS = ("tags", "labels", "ner_tags")
_SPAN_COLUMNS = ("spans", "entities")
_OF_TEXT = ("label", "labels")  # further names of the spans of a text
_OF_SPAN = (("start", "start_offset"), ("end", "end_offset"), ("label", "labels", "type"))
_TABLE_WORDS, _TABLE_TAGS = (("word",), ("token",)), ("tag", "ner", "ner_tag", "label")
_TEXT = ("text",)
# In the header of a file of columns.
_WORD_NAMES = {"word", "words", "token", "tokens", "form", "text"}
_TAG_NAMES = {
    *("tag", "tags", "label", "labels", "ner", "ner_tag", "ner_tags", "entity", "bio", "iob"),
    *("pos", "pos_tag", "upos", "xpos"),
}

Span = tuple[int, int, str]

_CONLLU_TAGS = {"upos": 3, "xpos": 4}  # of the ten columns
_CONLLU_ID = re.compile(r"(?P<word>\d+)|\d+-\d+|\d+\.\d+")

# The lines of a sentence: (number, fields).
Lines = list[tuple[int, list[str]]]


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence, and a tag for each; `tags` is None if they are not known.

    `text` is what the words were split from; None: they were given as words.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    text: str | None = field(default=None, kw_only=True, repr=False)

    def places(self) -> list[tuple[int, int]]:
        """Return where the words stand in the text, in characters."""
        places, end = [], 0
        for word in self.words:
            start = self.text.index(word, end)
            end = start + len(word)
            places.append((start, end))
        return places


def split_sentence(text: str, splitter: str) -> TaggedSentence:
    """Return the words of a text, without tags; how it is split says `words_with_offsets`."""
    words = (text[start:end] for start, end in word_places(text, splitter))
    return TaggedSentence(tuple(words), None, text=text)


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
    `tokens` and `tags`, or `spans` in their place, see `span_row`. `.csv` has a row for each word
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
            return _conllu_file(path, "upos" if label is None else label, how)
        if text is not None and len(text) != 1:
            raise ValueError(f"{path}: text must be one column, that of the words; got {text!r}")
        return _columns_file(path, how)

    def of_table(self, table: Table, how: Reading) -> TaskData:
        return gather(table.source, table.rows, sentence_maker(table, how), how.skip)


def sentence_maker(table: Table, how: Reading) -> Callable[[dict | list], TaggedSentence]:
    """Return what makes the sentence of a row of a table, from words or from a text."""
    if not how.columns and _has_spans(table.header):
        return lambda row: span_row(row, how)
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
    if not isinstance(words, list) or not words:
        raise BadRow(f"{column!r} must be a list of one word or more; got {words!r:.60}")
    words = tuple(checked_text(word, "a word") for word in words)
    tags = row.get(answer) if answer is not None else None
    if tags is None and not how.labelled:
        return TaggedSentence(words, None)
    if not isinstance(tags, list) or len(tags) != len(words):
        count = f"{len(tags)} tags" if isinstance(tags, list) else f"{tags!r:.60}"
        raise BadRow(f"expected a list of {len(words)} tags, one for each word; got {count}")
    if any(isinstance(tag, bool) or not isinstance(tag, (str, int)) for tag in tags):
        raise BadRow(f"tags must be names or numbers; got {tags!r:.60}")
    return TaggedSentence(words, tuple(_checked_tag(str(tag)) for tag in tags))


def _columns_file(path: str, how: Reading) -> TaskData:
    """Read lines of columns between tabs, else spaces; the tag is the last column if none is given.

    Words are in the first column, or in that after it if it counts, or where a header says.
    """
    tag = None if how.label is None else _number(path, "label", how.label)
    header, rows = _without_header(list(_sentences(path)), tag)
    rows = _without_comments(rows, tag)
    widths = Counter(len(fields) for _, lines in rows for _, fields in lines)
    width = max(widths, key=widths.get, default=0)  # a line with another width is damaged
    counts = how.text is None and width > 1 and _counts(rows)
    if how.text is not None:
        word = _number(path, "text", how.text[0])
    else:
        word = int(counts) if header is None else _word_column(header)
    if how.labelled and width:
        if word >= width or (tag or 0) >= width or width == 1:
            wanted = max(word, 1 if tag is None else tag) + 1
            raise ValueError(
                f"{path}: expected words and tags in {wanted} or more columns between tabs or "
                f"spaces; most of its lines have {width}"
            )
        if counts and width == 2:
            raise ValueError(
                f"{path}: its first column counts the words, and the other one is that of the "
                "tags; add a column of words, or choose them with text (--text 0)"
            )
    place = width - 1 if tag is None else tag

    def make(lines: Lines) -> TaggedSentence:
        for number, fields in lines:
            if len(fields) > width or len(fields) < (width if how.labelled else word + 1):
                raise BadRow(
                    f"expected {width} columns, as most lines of the file have; got {len(fields)}: "
                    f"{' '.join(fields)[:60]!r}",
                    f"line {number}",
                )
        tags = None
        if place != word and all(len(fields) > place and fields[place] for _, fields in lines):
            tags = [_checked_tag(fields[place]) for _, fields in lines]
        elif how.labelled:
            number = next(n for n, fields in lines if place == word or not fields[place])
            raise BadRow("a word without a tag", f"line {number}")
        return _sentence(lines, word, tags)

    data = gather(path, rows, make, how.skip)
    data.notes.append(f"words in column {word}, tags in column {place} of 0 to {width - 1}")
    if header is not None:
        data.notes.append(f"the header {' '.join(header)[:60]!r} left out")
    return data


def _without_header(
    rows: list[tuple[str, Lines]], tag: int | None
) -> tuple[list[str] | None, list[tuple[str, Lines]]]:
    """Return the names of the columns, if a file begins with them, and its sentences.

    A header has a column of words, and as a tag the name of one, or what is none of the scheme.
    """
    every = [line for _, lines in rows for line in lines if not line[1][0].startswith("#")]
    first, others = next(iter(every), None), every[1:]
    if first is None or _word_column(first[1]) is None:
        return None, rows
    place = -1 if tag is None else tag
    tags = {fields[place] for _, fields in others if place < len(fields)}
    named = first[1][place] if place < len(first[1]) else ""
    apart = tags - {OUTSIDE} and scheme_of(tags) is not None and scheme_of([named]) is None
    if named.lower() not in _TAG_NAMES and not apart:
        return None, rows
    kept = [(where, [x for x in lines if x is not first]) for where, lines in rows]
    return first[1], [(where, lines) for where, lines in kept if lines]


def _word_column(header: list[str]) -> int | None:
    """Return the column that a header calls that of the words, or None."""
    return next((i for i, name in enumerate(header) if name.lower() in _WORD_NAMES), None)


def _counts(rows: list[tuple[str, Lines]]) -> bool:
    """Return whether the first column numbers the words, of each sentence or of the file."""
    last, words = 0, 0
    for _, lines in rows:
        for place, (_, fields) in enumerate(lines):
            number = int(fields[0]) if fields[0].isascii() and fields[0].isdecimal() else -1
            if number != last + 1 and (place or number not in (0, 1)):
                return False
            last, words = number, words + 1
    return words > max(2, len(rows))


def _checked_tag(tag: str) -> str:
    if re.fullmatch(r"-\d+", tag):
        raise BadRow(
            f"the tag {tag} says that a word, or a piece of one, has no tag; give each word its own"
        )
    return checked_text(tag, "a tag")


def _without_comments(rows: list[tuple[str, Lines]], tag: int | None) -> list[tuple[str, Lines]]:
    """Return sentences without comments: lines that begin with "#" and are no row of the table.

    A "#" is a word in a row of the usual number of columns, unless it alone has a tag that marks no
    entity.
    """
    others = [fields for _, lines in rows for _, fields in lines if not fields[0].startswith("#")]
    if not others:
        return rows
    width = Counter(map(len, others)).most_common(1)[0][0]
    place = width - 1 if tag is None else tag
    known = {fields[place] for fields in others if len(fields) > place}
    marks = bool(known) and scheme_of(known) is not None

    def is_comment(fields: list[str]) -> bool:
        if not fields[0].startswith("#") or len(fields) != width:
            return fields[0].startswith("#")
        return marks and fields[0] == "#" and scheme_of([fields[place]]) is None

    kept = [(where, [x for x in lines if not is_comment(x[1])]) for where, lines in rows]
    return [(where, lines) for where, lines in kept if lines]


def _conllu_file(path: str, label: Column, how: Reading) -> TaskData:
    place = _CONLLU_TAGS.get(str(label).lower())
    if place is None:
        place = _number(path, "the column of the tags, if not upos or xpos,", label)
    if place > 9:
        raise ValueError(f"{path}: CoNLL-U has the columns 0 to 9; got {place}")

    def make(lines: Lines) -> TaggedSentence:
        words = conllu_words(lines)
        tags = [fields[place] for _, fields in words]
        # In other columns `_` is a value, such as "no features".
        lacking = [not tag or tag == "_" and place in _CONLLU_TAGS.values() for tag in tags]
        if any(lacking):
            number, fields = words[lacking.index(True)]
            if how.labelled:
                raise BadRow(
                    f"the word {fields[1]!r:.60} has no {label}; choose the other column or an "
                    "annotated file",
                    f"line {number}",
                )
            tags = None
        return _sentence(words, 1, tags)

    data = gather(path, conllu_sentences(path), make, how.skip)
    data.notes.append(f"CoNLL-U, words in FORM, tags in {str(label).upper()}")
    return data


def is_conllu(path: str) -> bool:
    """Return whether a file is CoNLL-U, whatever its name, by its first sentence."""
    _, lines = next(conllu_sentences(path), ("", []))
    try:
        numbers = [fields[0] for _, fields in conllu_words(lines, 1)]
    except BadRow:
        return False
    enough = all(len(fields) >= 10 for _, fields in lines)
    return enough and numbers == [str(n) for n in range(1, len(numbers) + 1)]


def conllu_sentences(path: str) -> Iterator[tuple[str, Lines]]:
    """Yield for each sentence of a CoNLL-U file the place where it begins, and its lines."""
    return _sentences(path, conllu=True)


def conllu_words(lines: Lines, least: int = 10) -> Lines:
    """Return the lines of the syntactic words of a sentence of CoNLL-U.

    They have at least `least` columns; if that is more than ten, others may follow.
    """
    words = []
    for number, fields in lines:
        where = f"line {number}"
        if len(fields) < least or least == 10 < len(fields):
            what = "the ten columns" if least == 10 else f"the ten columns and {least - 10} or more"
            raise BadRow(
                f"expected {what} of CoNLL-U between tabs; got {len(fields)}: "
                f"{' '.join(fields)[:60]!r}",
                where,
            )
        match = _CONLLU_ID.fullmatch(fields[0])
        if not match:
            raise BadRow(f"{fields[0]!r:.30} is not an ID of CoNLL-U", where)
        if match["word"]:
            if not fields[1].strip():
                raise BadRow("an empty word", where)
            words.append((number, fields))
    if not words:
        raise BadRow("a sentence without words")
    return words


def _sentences(path: str, conllu: bool = False) -> Iterator[tuple[str, Lines]]:
    """Yield for each sentence the place where it begins, and its lines."""
    lines: Lines = []
    for number, line in enumerate(file_lines(path), 1):
        if conllu and line.startswith("#"):
            continue
        body = line if conllu else line.rstrip(" \t")
        # Not `split()`: a no-break space is part of a word.
        fields = body.split("\t") if conllu or "\t" in body else re.split(" +", body.strip(" "))
        if line.strip() and (conllu or fields[0] != "-DOCSTART-"):
            lines.append((number, fields))
        elif lines:
            yield f"line {lines[0][0]}", lines
            lines = []
    if lines:
        yield f"line {lines[0][0]}", lines


def _sentence(lines: Lines, word: int, tags: list[str] | None) -> TaggedSentence:
    words = []
    for number, fields in lines:
        if not fields[word].strip():
            raise BadRow("an empty word", f"line {number}")
        words.append(fields[word])
    return TaggedSentence(tuple(words), None if tags is None else tuple(tags))


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


def _number(path: str, name: str, column: Column) -> int:
    if isinstance(column, str) and not (column.isascii() and column.isdecimal()):
        raise ValueError(f"{path}: {name} must be a number of a column, from 0; got {column!r}")
    return int(column)


def _has_spans(header: Sequence[Any] | None) -> bool:
    """Return whether the rows of a table with these columns have spans in place of tags."""
    columns = set(header or ())
    if columns & {"words", "tokens"}:
        return bool(columns & {*_SPAN_COLUMNS}) and not columns & {*TAG_COLUMNS}
    return "text" in columns and bool(columns & {*_SPAN_COLUMNS, *_OF_TEXT})


def span_row(row: dict, how: Reading) -> TaggedSentence:
    """Return the sentence of a row, its spans as BIO tags.

    A row has `tokens` or `words`, a list of strings, and spans of them; or `text` and spans of its
    characters, of which one that begins or ends within a word is widened to it. A span is
    `[start, end, type]` or `{"start": ..., "end": ..., "label": ...}` (also `start_offset`,
    `end_offset` and `labels`, a list of one), its end exclusive, in `spans` or `entities`, of a
    text also in `label` or `labels`.
    """
    tokens = next((row[name] for name in ("tokens", "words") if row.get(name) is not None), None)
    columns = _SPAN_COLUMNS if tokens is not None else (*_SPAN_COLUMNS, *_OF_TEXT)
    column = next((name for name in columns if row.get(name) is not None), None)
    spans = None
    if column is not None:
        if not isinstance(row[column], list):
            raise BadRow(f"{column!r} must be a list of spans; got {row[column]!r:.60}")
        spans = [_span(span) for span in row[column]]
    elif how.labelled:
        raise BadRow(f"has no {_SPAN_COLUMNS[0]!r}; expected a list, empty if there are none")
    if tokens is None:
        text = checked_text(row.get("text"), "'text'", not how.labelled)
        found = split_sentence(text, how.splitter)
        places = found.places()
        spans = None if spans is None else [_of_words(s, places, found.text) for s in spans]
    else:
        if not isinstance(tokens, list) or not tokens:
            raise BadRow(f"'tokens' must be a list of one word or more; got {tokens!r:.60}")
        found = TaggedSentence(tuple(checked_text(word, "a word") for word in tokens), None)
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
