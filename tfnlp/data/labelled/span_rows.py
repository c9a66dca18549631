"""Sentences whose entities are spans, of words or of the characters of a text."""

import re
from collections.abc import Sequence
from typing import Any

from tfnlp.data.labelled.rows import BadRow, checked_text
from tfnlp.data.labelled.tag_schemes import bio_of_spans
from tfnlp.data.labelled.tagged_sentences import TAG_COLUMNS, TaggedSentence

SPAN_COLUMNS = ("spans", "entities")
_OF_TEXT = ("label", "labels")  # further names of the spans of a text
_WORD_COLUMNS = ("tokens", "words")
_WORD = re.compile(r"\w+|[^\w\s]")

Span = tuple[int, int, str]


def has_spans(header: Sequence[Any] | None) -> bool:
    """Return whether the rows of a table with these columns have spans in place of tags."""
    columns = set(header or ())
    if columns & {*_WORD_COLUMNS}:
        return bool(columns & {*SPAN_COLUMNS}) and not columns & {*TAG_COLUMNS}
    return "text" in columns and bool(columns & {*SPAN_COLUMNS, *_OF_TEXT})


def span_row(row: dict, labelled: bool) -> TaggedSentence:
    """Return the sentence of a row, its spans as BIO tags.

    A row has `tokens` or `words`, a list of strings, and spans of them; or `text` and spans of its
    characters. Then its words are runs of letters and digits, and each other character on its own;
    a span that begins or ends within a word is widened to it. A span is `[start, end, type]` or
    `{"start": ..., "end": ..., "label": ...}`, its end exclusive, in `spans` or `entities`, of a
    text also in `label` or `labels`.
    """
    tokens = next((row[name] for name in _WORD_COLUMNS if row.get(name) is not None), None)
    columns = SPAN_COLUMNS if tokens is not None else (*SPAN_COLUMNS, *_OF_TEXT)
    column = next((name for name in columns if row.get(name) is not None), None)
    spans = None
    if column is not None:
        if not isinstance(row[column], list):
            raise BadRow(f"{column!r} must be a list of spans; got {row[column]!r:.60}")
        spans = [_span(span) for span in row[column]]
    elif labelled:
        raise BadRow(f"has no {SPAN_COLUMNS[0]!r}; expected a list, empty if there are none")
    if tokens is None:
        text = checked_text(row.get("text"), "'text'")
        places = [match.span() for match in _WORD.finditer(text)]
        words = [text[start:end] for start, end in places]
        spans = None if spans is None else [_of_words(span, places, text) for span in spans]
    else:
        if not isinstance(tokens, list) or not tokens:
            raise BadRow(f"'tokens' must be a list of one word or more; got {tokens!r:.60}")
        words = [checked_text(word, "a word") for word in tokens]
    if spans is None:
        return TaggedSentence(tuple(words), None)
    try:
        return TaggedSentence(tuple(words), bio_of_spans(len(words), spans))
    except ValueError as error:
        raise BadRow(str(error)) from error


def _span(span: object) -> Span:
    """Return the start, the end and the type of a span."""
    if isinstance(span, dict):
        span = [span.get("start"), span.get("end"), span.get("label", span.get("type"))]
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
