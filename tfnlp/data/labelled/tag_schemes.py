"""Tags that mark entities: the schemes BIO and IOB1, and IOB1 read as BIO."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

OUTSIDE = "O"


def is_bio(tags: Iterable[str]) -> bool:
    """Return whether every tag is "O" or begins with "B-" or "I-": then tags mark entities."""
    return all(tag == OUTSIDE or tag.startswith(("B-", "I-")) for tag in set(tags))


def as_bio(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of a sentence with "B-X" where an entity begins.

    In IOB1 (Ramshaw & Marcus 1995, CoNLL-2003) an entity begins with "B-X" only if the word before
    is of another entity of type X, else with "I-X": an "I-X" that follows neither "B-X" nor "I-X"
    begins one. Tags that are BIO already stay as they are.
    """
    before = (OUTSIDE, *tags)
    return tuple(
        f"B-{tag[2:]}" if tag.startswith("I-") and _begins(tag, last) else tag
        for last, tag in zip(before, tags, strict=False)
    )


def _begins(tag: str, last: str) -> bool:
    return last == OUTSIDE or last[2:] != tag[2:]


def read_as_bio(examples: Sequence[Any]) -> tuple[list[Any], str | None]:
    """Return tagged sentences in BIO, and which scheme they had, in words.

    Args:
        examples: `TaggedSentence`s, of which some may have no tags.

    Returns:
        `(examples, scheme)`: the same examples and None, if their tags don't mark entities.
    """
    if not is_bio(tag for e in examples for tag in e.tags or ()):
        return list(examples), None
    found, total, first, touching = [], 0, 0, 0
    for example in examples:
        tags = example.tags or ()
        bio = as_bio(tags)
        total += sum(tag.startswith("B-") for tag in bio)
        first += sum(a != b for a, b in zip(tags, bio, strict=True))
        touching += sum(
            tag.startswith("B-") and last != OUTSIDE and last[2:] == tag[2:]
            for last, tag in zip(tags, tags[1:], strict=False)
        )
        found.append(example if bio == tags else dataclasses.replace(example, tags=bio))
    if not total:
        return found, None
    if not first:
        return found, f"BIO tags of {total:,} entities"
    scheme = "IOB1 tags" if first + touching == total else "BIO and IOB1 tags mixed"
    return found, f"{scheme}, read as BIO: {first:,} of {total:,} entities begin with I-"
