"""Exact match and F1 of answers, as the official scripts of SQuAD 1.1 and 2.0 count them."""

import collections
import re
import string

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text):
    """Lower case, without ASCII punctuation, English articles and surplus white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def question_scores(golds, predicted, unanswerable=False):
    """Exact match and F1 of one answer, each the best over the gold answers; 0 to 1.

    F1 = 2 P R / (P + R), where P is the share of the predicted words that are in the gold
    answer, as multisets, and R the share of its words that were predicted.

    Args:
        golds: strings; none: the question has no answer.
        predicted: string; "" says that there is no answer.
        unanswerable: count as SQuAD 2.0 does, where questions may have no answer. Then golds of
            which normalization leaves nothing are dropped, and "" is right where none is left.
            In 1.1 there is no F1 for an empty answer.

    Returns:
        (exact match, F1), floats.
    """
    if unanswerable:
        golds = [gold for gold in golds if normalize(gold)] or [""]
    elif not golds:
        raise ValueError("golds: a question without answers came; SQuAD 1.1 has none such")
    guess = normalize(predicted)
    exact = max(float(normalize(gold) == guess) for gold in golds)
    return exact, max(_f1(normalize(gold), guess, unanswerable) for gold in golds)


def answers(golds, predicted, null_odds=None, threshold=0.0):
    """Exact match and F1 over all questions, in percent.

    The rules are those of SQuAD 2.0 if some question has no answer or `null_odds` came, else
    those of SQuAD 1.1 (they part only where normalization leaves nothing of an answer).

    Args:
        golds: dict of question id -> gold answers (strings; none: the question has no answer).
        predicted: dict of question id -> answer; "" says that there is none. With `null_odds` it
            is best to pass the best answer that is not empty, so that a threshold can be found.
        null_odds: dict of question id -> how much rather there is no answer: the null answer's
            score minus that of the best other one.
        threshold: no answer is given where the odds are above it.

    Returns:
        dict of floats: `exact_match`, `f1`; for SQuAD 2.0 also, over the questions with and
        those without answer, `HasAns_exact`, `HasAns_f1`, `NoAns_exact`, `NoAns_f1` (left out
        where there are no such questions); with `null_odds` also the best that any threshold
        reaches, `best_exact` and `best_f1`, and those, `best_exact_thresh`, `best_f1_thresh`.

    Raises:
        ValueError: no questions, or one without a prediction or odds.

    Source: evaluate-v1.1.py and evaluate-v2.0.py (Rajpurkar et al. 2016, 2018).
    """
    if not golds:
        raise ValueError("golds: no questions came; there is nothing to measure")
    for name, values in (("predicted", predicted), ("null_odds", null_odds)):
        missing = [key for key in golds if values is not None and key not in values]
        if missing:
            raise ValueError(
                f"{name}: nothing came for {len(missing)} of {len(golds)} questions, "
                f"such as {missing[0]!r}"
            )
    answerable = {key: any(golds[key]) for key in golds}
    second = null_odds is not None or not all(answerable.values())
    raw = {key: question_scores(golds[key], predicted[key], second) for key in golds}
    if not second:
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


def best_threshold(scores, predicted, null_odds, answerable):
    """The best mean score in percent that a threshold of the odds reaches, and the threshold.

    One walk over the questions in the order of their odds: at first none is answered, which is
    right for those without answer; each further one adds its score or, where there is nothing to
    answer, takes 1 away. As in the official script, questions of equal odds are taken one after
    the other, and the threshold is 0 where it is best to answer none.

    Args:
        scores: dict of question id -> score (0 to 1) if it is answered.
        predicted: dict of question id -> answer.
        null_odds: dict of question id -> float.
        answerable: dict of question id -> bool.
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


def off_the_edge(threshold, null_odds):
    """A threshold that says the same of these odds, and still does when their last digits change.

    The best threshold is the odds of one of the questions. Another processor, or a graph that was
    optimized in another way, would round that one's odds to this side or that.

    Args:
        threshold: from `best_threshold`.
        null_odds: floats, of all questions.

    Returns:
        float, the middle between `threshold` and the next larger odds, at most 0.5 away.
    """
    return (threshold + min([x for x in null_odds if x > threshold] + [threshold + 1.0])) / 2


def _f1(gold, guess, unanswerable):
    gold, guess = gold.split(), guess.split()
    if unanswerable and not (gold and guess):
        return float(gold == guess)
    common = sum((collections.Counter(gold) & collections.Counter(guess)).values())
    # 2 P R / (P + R) with P = common / len(guess) and R = common / len(gold)
    return 2.0 * common / (len(gold) + len(guess)) if common else 0.0


def _percent(scores, keys, column):
    return 100.0 * sum(scores[key][column] for key in keys) / len(keys)
