"""Entities marked by BIO tags, and precision, recall and F1 over them."""

from collections.abc import Sequence

OUTSIDE = "O"


def is_bio(tags: Sequence[str]) -> bool:
    """Return whether every tag is "O" or begins with "B-" or "I-": then tags mark entities."""
    return all(tag == OUTSIDE or tag.startswith(("B-", "I-")) for tag in set(tags))


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the entities of one sentence as `(type, start, end)`, `end` exclusive.

    An entity begins at "B-X", and also at an "I-X" that follows neither "B-X" nor "I-X". It ends
    before the next tag that is not "I-X". This is how the conlleval script of CoNLL-2000 reads
    tags, and the default mode of seqeval.

    Args:
        tags: the tag of each word: "O", "B-TYPE" or "I-TYPE". Any other tag counts as "O".
    """
    found, kind, start = [], None, 0
    for place, tag in enumerate([*tags, OUTSIDE]):
        prefix, name = tag[:2], tag[2:]
        if kind is not None and not (prefix == "I-" and name == kind):
            found.append((kind, start, place))
            kind = None
        if kind is None and prefix in ("B-", "I-"):
            kind, start = name, place
    return found


def entity_scores(
    tags: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return precision, recall and F1 of entities, micro-averaged over all sentences and types.

    `P = right / predicted`, `R = right / gold`, `F1 = 2 P R / (P + R)`. A predicted entity is
    right if its type and both its ends are those of a gold one. A value is 0 where its
    denominator is.

    Args:
        tags: gold tags, one sequence a sentence.
        predicted: predicted tags, one sequence a sentence, in the same order.

    Returns:
        dict of floats: `precision`, `recall`, `f1`.
    """
    right = guessed = gold = 0
    for expected, got in zip(tags, predicted, strict=True):
        expected, got = set(entities(expected)), set(entities(got))
        right += len(expected & got)
        guessed += len(got)
        gold += len(expected)
    precision = right / guessed if guessed else 0.0
    recall = right / gold if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}
