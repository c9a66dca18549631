"""Sentences with a tag for each word, and the schemes of tags that mark entities, read as BIO."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tfnlp.text.words import word_places

OUTSIDE = "O"

# The letters of a scheme beside O. Single-word entities are S, U or W, last words E or L, words
# within M or I.
_SCHEMES = {
    "BIO": "BI",
    "IOE": "IE",
    "BIOES": "BIES",
    "BILOU": "BILU",
    "BMEOW": "BMEW",
    "BMEOS": "BMES",
}
_MIXED = "mixed"
_MEANING = {"M": "I", "L": "E", "U": "S", "W": "S"}
_TAG = re.compile(r"([BIESLUMW])-(.+)", re.DOTALL)


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


def is_bio(tags: Iterable[str]) -> bool:
    """Return whether every tag is "O" or begins with "B-" or "I-": then tags mark entities."""
    return all(tag == OUTSIDE or tag.startswith(("B-", "I-")) for tag in set(tags))


def scheme_of(tags: Iterable[str]) -> str | None:
    """Return the name of the scheme of tags that mark entities, or None if they don't.

    IOB1 (Ramshaw & Marcus 1995, CoNLL-2003) has the letters of BIO (IOB2). Tags that are of several
    schemes are "mixed".
    """
    letters = set()
    for tag in set(tags) - {OUTSIDE}:
        match = _TAG.fullmatch(tag)
        if match is None:
            return None
        letters.add(match[1])
    if letters <= {"B", "I"}:
        return "BIO"
    found = (name for name, of_scheme in _SCHEMES.items() if letters <= set(of_scheme))
    return next(found, _MIXED)


def as_bio(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of a sentence with "B-X" where an entity begins and "I-X" where it goes on.

    An entity begins at B and S, after O, E and S, and where the type changes, as the script of
    CoNLL-2000 and seqeval have it. So of IOB1, in which an entity begins with "B-X" only if the
    word before is of another entity of type X, an "I-X" after another type begins one. Tags that
    mark no entity stay as they are, and so do tags that are BIO already.
    """
    found, last, before = [], OUTSIDE, ""
    for tag in tags:
        match = _TAG.fullmatch(tag)
        letter, kind = (_MEANING.get(match[1], match[1]), match[2]) if match else (OUTSIDE, "")
        begins = letter in "BS" or last in "OES" or kind != before
        found.append(tag if match is None else f"{'B' if begins else 'I'}-{kind}")
        last, before = letter, kind
    return tuple(found)


def bio_of_spans(count: int, spans: Iterable[tuple[int, int, str]]) -> tuple[str, ...]:
    """Return the BIO tags of `count` words, of which spans are entities.

    Spans are `(start, end, type)` of words, `end` exclusive; they must not overlap.
    """
    tags = [OUTSIDE] * count
    for start, end, kind in spans:
        if not 0 <= start < end <= count:
            raise ValueError(
                f"the span [{start}, {end}, {kind!r}] is not within its {count} words; the end is "
                "that of the last word plus 1"
            )
        if any(tag != OUTSIDE for tag in tags[start:end]):
            raise ValueError(
                f"the span [{start}, {end}, {kind!r}] overlaps another; a word has one tag"
            )
        tags[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return tuple(tags)


def read_as_bio(examples: Sequence[Any]) -> tuple[list[Any], str | None]:
    """Return `TaggedSentence`s in BIO, and which scheme they had, in words.

    Some may have no tags. If tags don't mark entities, it is the same examples and None.
    """
    scheme = scheme_of(tag for e in examples for tag in e.tags or ())
    if scheme is None:
        return list(examples), None
    found = []
    for example in examples:
        tags = example.tags or ()
        bio = as_bio(tags)
        found.append(example if bio == tags else replace(example, tags=bio))
    pairs = [(e.tags or (), x.tags or ()) for e, x in zip(examples, found, strict=True)]
    total = sum(tag.startswith("B-") for _, bio in pairs for tag in bio)
    if not total:
        return found, None
    changed = sum(a != b for tags, bio in pairs for a, b in zip(tags, bio, strict=True))
    if scheme != "BIO":
        return found, _converted(scheme, pairs, changed, total)
    if not changed:
        return found, f"BIO tags of {total:,} entities"
    # In BIO and in IOB1 tags an I-X that becomes B-X is an entity's first.
    touching = sum(
        tag.startswith("B-") and last != OUTSIDE and last[2:] == tag[2:]
        for tags, _ in pairs
        for last, tag in zip(tags, tags[1:], strict=False)
    )
    scheme = "IOB1 tags" if changed + touching == total else "BIO and IOB1 tags mixed"
    return found, f"{scheme}, read as BIO: {changed:,} of {total:,} entities begin with I-"


def _converted(scheme: str, pairs: Sequence[tuple], changed: int, total: int) -> str:
    """Return in words that tags of another scheme than BIO and IOB1 were converted."""
    count = sum(len(tags) for tags, _ in pairs)
    name = "tags of mixed schemes" if scheme == _MIXED else f"{scheme} tags"
    found = f"{name}, read as BIO: {changed:,} of {count:,} tags converted, {total:,} entities"
    wrong = 0 if scheme == "IOE" else sum(1 for tags, _ in pairs for _ in _breaks(tags))
    return found + (f"; {wrong:,} tags do not fit the one before them" if wrong else "")


def _breaks(tags: Sequence[str]) -> Iterator[int]:
    """Yield the places of tags, and of the end, that may not follow the tag before them."""
    is_open, before = False, ""
    for place, tag in enumerate([*tags, OUTSIDE]):
        match = _TAG.fullmatch(tag)
        letter, kind = (_MEANING.get(match[1], match[1]), match[2]) if match else (OUTSIDE, "")
        if is_open != (letter in "IE") or is_open and kind != before:
            yield place
        is_open, before = letter in "BI", kind
