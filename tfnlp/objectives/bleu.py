"""BLEU of a whole corpus and by the length of its sources, computed by sacreBLEU."""

from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

from tfnlp.extras import needed


class LengthScore(NamedTuple):
    """BLEU of the `count` sentences whose sources have `shortest` to `longest` words."""

    shortest: int
    longest: int
    count: int
    bleu: float


def sacrebleu() -> ModuleType:
    """Return `sacrebleu.metrics`; call it before slow work."""
    return needed("sacrebleu.metrics", "sacrebleu", "translation", "BLEU")


def corpus_bleu(translations: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Return BLEU in percent and sacreBLEU's signature, which says how it was computed.

    `BLEU = 100 min(1, exp(1 - r / c)) (p_1 p_2 p_3 p_4)^(1/4)` over the corpus, p_n the share of
    n-grams of the translations that the references have, c and r the lengths of both (Papineni et
    al. 2002), with mteval's tokens ("13a") and case-sensitive (Post 2018).
    """
    metric = sacrebleu().BLEU()
    score = metric.corpus_score(list(translations), [list(references)])
    return score.score, str(metric.get_signature())


def bleu_by_length(
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
    groups: int = 6,
) -> list[LengthScore]:
    """Return BLEU of sentences grouped by the length of their sources in words.

    There are at most so many groups, each with about as many sentences; sources of one length are
    in one group.
    """
    lengths = [len(source.split()) for source in sources]
    ordered = sorted(lengths)
    # A group ends with all sentences of the length at which it is full.
    ends = {ordered[-(-len(ordered) * i // groups) - 1] for i in range(1, groups + 1)}
    scores, start = [], ordered[0]
    for end in sorted(ends):
        rows = [i for i, length in enumerate(lengths) if start <= length <= end]
        score, _ = corpus_bleu([translations[i] for i in rows], [references[i] for i in rows])
        scores.append(LengthScore(start, end, len(rows), score))
        start = end + 1
    return scores
