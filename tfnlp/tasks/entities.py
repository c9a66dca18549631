"""Entities marked by BIO tags, and precision, recall and F1 over them."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tfnlp.data.labelled.tag_schemes import OUTSIDE, is_bio


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the entities of one sentence as `(type, start, end)`, `end` exclusive.

    An entity begins at "B-X", and also at an "I-X" that follows neither "B-X" nor "I-X". It ends
    before the next tag that is not "I-X". Any other tag counts as "O". This is how the conlleval
    script of CoNLL-2000 reads tags, and the default mode of seqeval.
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
    right if its type and both its ends are those of a gold one; see `rates`.
    """
    counts = entity_counts(tags, predicted).values()
    right, guessed, gold = (sum(numbers) for numbers in zip((0, 0, 0), *counts, strict=True))
    return rates(right, guessed, gold)


def type_scores(
    tags: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Return for each type what `entity_scores` does, with `gold` and `predicted`, the counts."""
    return {
        kind: {**rates(right, guessed, gold), "gold": gold, "predicted": guessed}
        for kind, (right, guessed, gold) in entity_counts(tags, predicted).items()
    }


def entity_counts(
    tags: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, tuple[int, int, int]]:
    """Return for each type the number of right, of predicted and of gold entities."""
    right, guessed, gold = Counter(), Counter(), Counter()
    for expected, got in zip(tags, predicted, strict=True):
        expected, got = set(entities(expected)), set(entities(got))
        for counter, found in ((right, expected & got), (guessed, got), (gold, expected)):
            counter.update(kind for kind, _, _ in found)
    return {kind: (right[kind], guessed[kind], gold[kind]) for kind in sorted(gold | guessed)}


def rates(right: int, guessed: int, gold: int) -> dict[str, float]:
    """Return `precision`, 0 where nothing is predicted, `recall` and `f1` of counts.

    Where there is no gold one there is nothing to measure, and the dict is empty.
    """
    if not gold:
        return {}
    precision = right / guessed if guessed else 0.0
    return {"precision": precision, "recall": right / gold, "f1": 2 * right / (guessed + gold)}


def tagging(
    tags: Iterable[Iterable[str]], predicted: Iterable[Iterable[str]], bio: bool | None = None
) -> dict[str, float]:
    """Return accuracy over words and, for tags of entities, precision, recall and F1 of entities.

    An entity counts when both its ends and its type are right. `bio`
    says whether tags mark entities; None: as `is_bio` finds in `tags`.
    """
    tags, predicted = [list(t) for t in tags], [list(t) for t in predicted]
    flat = [tag for sentence in tags for tag in sentence]
    flat_predicted = [tag for sentence in predicted for tag in sentence]
    right = sum(a == b for a, b in zip(flat, flat_predicted, strict=True))
    values = {"accuracy": right / len(flat)}
    if is_bio(flat) if bio is None else bio:
        values |= entity_scores(tags, predicted)
    return values
