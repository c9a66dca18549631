"""Exact match and F1 of answers, as the official scripts of SQuAD 1.1 and 2.0 count them."""

import collections
import re
import string
from collections.abc import Collection, Iterable, Mapping, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lower-case; remove ASCII punctuation, English articles and surplus white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def question_scores(
    golds: Sequence[str], predicted: str, unanswerable: bool = False
) -> tuple[float, float]:
    """Return exact match and F1 of one answer, each the best over the gold answers; 0 to 1.

    F1 = 2 P R / (P + R), where P is the share of the predicted words that are in the gold
    answer, as multisets, and R the share of its words that were predicted. `unanswerable` counts
    as SQuAD 2.0 does: there may be no golds, those of which normalization leaves nothing are
    dropped, and "" is right if none is left. In 1.1 an empty answer has F1 0.
    """
    if unanswerable:
        golds = [gold for gold in golds if normalize(gold)] or [""]
    guess = normalize(predicted)
    exact = max(float(normalize(gold) == guess) for gold in golds)
    return exact, max(_f1(normalize(gold), guess, unanswerable) for gold in golds)


def answers(
    golds: Mapping[str, Sequence[str]],
    predicted: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    threshold: float = 0.0,
) -> dict[str, float]:
    """Return exact match and F1 over all questions, in percent.

    The rules are those of SQuAD 2.0 if some question has no answer or `null_odds` is given, else
    those of SQuAD 1.1 (they differ only where normalization leaves nothing of an answer).

    Args:
        golds: gold answers by question; none: it has no answer, the one "": it has.
        predicted: answers by question; "": there is none. A question that is not in it scores 0.
            With `null_odds` every question must be, with the best answer that is not empty.
        null_odds: score of the null answer minus that of the best other one, by question.
        threshold: questions with higher odds count as answered with "".

    Returns:
        dict of floats: `exact_match`, `f1`; for SQuAD 2.0 also, over the questions with and
        those without answer, `HasAns_exact`, `HasAns_f1`, `NoAns_exact`, `NoAns_f1` (left out
        where there are no such questions); with `null_odds` also the best that any threshold
        reaches, `best_exact` and `best_f1`, and those, `best_exact_thresh`, `best_f1_thresh`.

    Source: evaluate-v1.1.py and evaluate-v2.0.py (Rajpurkar et al. 2016, 2018).
    """
    answerable = {key: bool(golds[key]) for key in golds}
    version_2 = null_odds is not None or not all(answerable.values())
    raw = {
        key: question_scores(golds[key], predicted[key], version_2) if key in predicted else (0, 0)
        for key in golds
    }
    if not version_2:
        return {name: _percent(raw, raw, i) for i, name in enumerate(("exact_match", "f1"))}

    scores = raw
    if null_odds is not None:
        no_answer = {key: (float(not answerable[key]),) * 2 for key in golds}
        scores = {k: no_answer[k] if null_odds[k] > threshold else raw[k] for k in golds}
    values = {name: _percent(scores, golds, i) for i, name in enumerate(("exact_match", "f1"))}
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        keys = [key for key in golds if answerable[key] is wanted]
        if keys:
            values[f"{prefix}_exact"] = _percent(scores, keys, 0)
            values[f"{prefix}_f1"] = _percent(scores, keys, 1)
    if null_odds is not None:
        for i, name in enumerate(("best_exact", "best_f1")):
            column = {key: raw[key][i] for key in golds}
            best = best_threshold(column, predicted, null_odds, answerable)
            values[name], values[f"{name}_thresh"] = best
    return values


def best_threshold(
    scores: Mapping[str, float],
    predicted: Mapping[str, str],
    null_odds: Mapping[str, float],
    answerable: Mapping[str, bool],
) -> tuple[float, float]:
    """Return the best mean score in percent that a threshold of the odds reaches, and it.

    At first no question is answered, which is right for those without answer; each further one, in
    the order of the odds, adds its score or, if it has no answer, subtracts 1. As in the official
    script, equal odds are added one by one, and the threshold is 0 if it is best to answer none.
    """
    score = best = float(sum(not a for a in answerable.values()))
    threshold = 0.0
    for key in sorted(scores, key=lambda key: null_odds[key]):
        if answerable[key]:
            score += scores[key]
        elif predicted[key]:
            score -= 1.0
        if score > best:
            best, threshold = score, float(null_odds[key])
    return 100.0 * best / len(scores), threshold


def off_the_edge(threshold: float, null_odds: Iterable[float]) -> float:
    """Return a threshold that separates these odds in the same way, with some margin.

    The best threshold equals the odds of one question, which rounding could move to either side of
    it elsewhere. So it is the middle to the next larger odds, at most 0.5 away.
    """
    return (threshold + min([x for x in null_odds if x > threshold] + [threshold + 1.0])) / 2


def _f1(gold: str, guess: str, unanswerable: bool) -> float:
    gold, guess = gold.split(), guess.split()
    if unanswerable and not (gold and guess):
        return float(gold == guess)
    common = sum((collections.Counter(gold) & collections.Counter(guess)).values())
    # 2 P R / (P + R) with P = common / len(guess) and R = common / len(gold)
    return 2.0 * common / (len(gold) + len(guess)) if common else 0.0


def _percent(
    scores: Mapping[str, tuple[float, float]], keys: Collection[str], column: int
) -> float:
    return 100.0 * sum(scores[key][column] for key in keys) / len(keys)
