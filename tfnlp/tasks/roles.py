"""Precision, recall and F1 of semantic roles."""

from collections.abc import Sequence

from tfnlp.data.labelled.tag_schemes import OUTSIDE, is_bio
from tfnlp.tasks import metrics
from tfnlp.tasks.entities import entities, rates

_OF_PREDICATES = ("V", "C-V")  # which are given

Role = tuple[str, int, int]


def roles(tags: Sequence[str], bio: bool) -> set[Role]:
    """Return the roles of one predicate as `(role, start, end)`, `end` exclusive.

    Without BIO tags of spans each word with a role is one, the head of an argument.
    """
    if bio:
        found = entities(tags)
    else:
        found = [(tag, i, i + 1) for i, tag in enumerate(tags) if tag != OUTSIDE]
    return {role for role in found if role[0] not in _OF_PREDICATES}


def role_scores(
    tags: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return accuracy over words and precision, recall and F1 of roles.

    Micro-averaged over all predicates, those of "V" left out, as in the evaluations of CoNLL-2005
    (spans) and CoNLL-2009 (heads). A role is right if its name and its words are. `tags` and
    `predicted` have one list of strings a predicate.
    """
    accuracy = metrics.tagging(tags, predicted, bio=False)
    bio = is_bio(tag for sentence in tags for tag in sentence)
    pairs = [(roles(a, bio), roles(b, bio)) for a, b in zip(tags, predicted, strict=True)]
    right = sum(len(gold & guess) for gold, guess in pairs)
    counts = right, sum(len(guess) for _, guess in pairs), sum(len(gold) for gold, _ in pairs)
    return {**accuracy, **rates(*counts)}
