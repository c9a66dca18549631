"""A sentence with a tag for each word, and spans as tags."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tfnlp.data.labelled.rows import BadRow, checked_text
from tfnlp.data.labelled.tables import Reading
from tfnlp.data.labelled.tag_schemes import bio_of_spans
from tfnlp.text.words import word_places

SPAN_COLUMNS = ("spans", "entities")
OF_TEXT = ("label", "labels")  # further names of the spans of a text
_OF_SPAN = (("start", "start_offset"), ("end", "end_offset"), ("label", "labels", "type"))

Span = tuple[int, int, str]


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


def checked_tag(tag: str) -> str:
    """Return a tag; a BadRow if it is none."""
    if re.fullmatch(r"-\d+", tag):
        raise BadRow(
            f"the tag {tag} says that a word, or a piece of one, has no tag; give each word its own"
        )
    return checked_text(tag, "a tag")


def span_row(row: dict, how: Reading) -> TaggedSentence:
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
