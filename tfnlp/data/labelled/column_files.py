"""Files of words in columns: CoNLL of any width, and CoNLL-U."""

import re
from collections import Counter
from collections.abc import Iterator

from tfnlp.data.labelled.rows import BadRow, TaskData, checked_text, file_lines, gather
from tfnlp.data.labelled.tables import Column, Reading
from tfnlp.data.labelled.tag_schemes import OUTSIDE, TaggedSentence, scheme_of

# In the header of a file of columns.
_WORD_NAMES = {"word", "words", "token", "tokens", "form", "text"}
_TAG_NAMES = {
    *("tag", "tags", "label", "labels", "ner", "ner_tag", "ner_tags", "entity", "bio", "iob"),
    *("pos", "pos_tag", "upos", "xpos"),
}
_CONLLU_TAGS = {"upos": 3, "xpos": 4}  # of the ten columns
_CONLLU_ID = re.compile(r"(?P<word>\d+)|\d+-\d+|\d+\.\d+")

# The lines of a sentence: (number, fields).
Lines = list[tuple[int, list[str]]]


def checked_tag(tag: str) -> str:
    """Return a tag; a BadRow if it is none."""
    if re.fullmatch(r"-\d+", tag):
        raise BadRow(
            f"the tag {tag} says that a word, or a piece of one, has no tag; give each word its own"
        )
    return checked_text(tag, "a tag")


def columns_file(path: str, how: Reading) -> TaskData:
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
            tags = [checked_tag(fields[place]) for _, fields in lines]
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


def conllu_file(path: str, label: Column, how: Reading) -> TaskData:
    """Read CoNLL-U; the tag is that of a column, "upos", "xpos" or a number."""
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
        numbers = [fields[0] for _, fields in conllu_words(lines, 2)]
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


def _number(path: str, name: str, column: Column) -> int:
    if isinstance(column, str) and not (column.isascii() and column.isdecimal()):
        raise ValueError(f"{path}: {name} must be a number of a column, from 0; got {column!r}")
    return int(column)
