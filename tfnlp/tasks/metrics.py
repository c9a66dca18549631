"""Measures of a fine-tuned model, taken over all held-out examples at once.

Unlike the means that a task adds up over batches, these need every prediction together. They use
scikit-learn and SciPy; F1 of entities is in `tfnlp.tasks.entities`, question answering in
`tfnlp.tasks.squad`.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy import stats
from sklearn.metrics import f1_score, matthews_corrcoef

from tfnlp.data.labelled.tag_schemes import is_bio
from tfnlp.tasks.entities import entity_scores


def classification(
    labels: Iterable[str], predicted: Iterable[str], names: Iterable[str]
) -> dict[str, float]:
    """Return accuracy, Matthews correlation and F1 of classes.

    Matthews correlation (of K classes: Gorodkin 2004) is 0 where it is undefined, because all
    labels or all predictions are the same class. F1 = 2 P R / (P + R), 0 for a class that is
    never predicted.

    Args:
        labels, predicted: strings, one an example.
        names: names of all classes, in order.

    Returns:
        dict of floats: `accuracy`, `matthews`, `f1`. With exactly two classes `f1` is that of the
        positive class, which is `names[1]` (MRPC and QQP: "1"), and `f1_macro` is the mean of
        both. Otherwise `f1` is the mean over the classes that occur in labels or predictions.

    Raises:
        ValueError: for a class that is not in `names`.
    """
    labels, predicted, names = list(labels), list(predicted), list(names)
    unknown = sorted((set(labels) | set(predicted)) - set(names), key=repr)
    if unknown:
        raise ValueError(f"labels: {unknown[0]!r} is not among the classes {names[:20]}")
    pairs = list(zip(labels, predicted, strict=True))
    # scikit-learn warns where only one class occurs.
    one_class = len(set(labels) | set(predicted)) == 1
    macro = float(f1_score(labels, predicted, average="macro", zero_division=0))
    values = {
        "accuracy": sum(a == b for a, b in pairs) / len(pairs),
        "matthews": 0.0 if one_class else float(matthews_corrcoef(labels, predicted)),
        "f1": macro,
    }
    if len(names) == 2:
        # The "macro average" over one class is its F1, also where the class does not occur.
        positive = f1_score(labels, predicted, labels=[names[1]], average="macro", zero_division=0)
        values |= {"f1": float(positive), "f1_macro": macro}
    return values


def label_sets(
    labels: Sequence[Iterable[str]], predicted: Sequence[Iterable[str]], names: Iterable[str]
) -> dict[str, float]:
    """Return F1 of sets of labels, their exact matches, and the measures of each label.

    Args:
        labels, predicted: the labels of each example, also none.
        names: names of all labels; others that occur count as labels that are never predicted.

    Returns:
        dict of floats: `micro_f1` over all decisions, `macro_f1`, the mean over the labels that
        occur in labels or predictions, `samples_f1`, the mean over examples (1 where there is no
        label and none is predicted), `subset_accuracy`, the share of examples all of whose labels
        are right; and `f1/NAME`, `precision/NAME` and `recall/NAME` for each of `names`, 0 where
        they are undefined.
    """
    labels, predicted = [set(x) for x in labels], [set(x) for x in predicted]
    names = list(names)
    known = set(names)
    every = [*names, *sorted(set().union(*labels, *predicted) - known)]
    gold, guess = (np.array([[n in row for n in every] for row in x]) for x in (labels, predicted))
    right, both = gold & guess, gold.astype(int) + guess  # F1 is 2 right / both
    occurs = both.sum(0) > 0
    rows = np.where(both.sum(1) > 0, _ratio(2 * right.sum(1), both.sum(1)), 1.0)
    of_labels = {
        "f1": _ratio(2 * right.sum(0), both.sum(0)),
        "precision": _ratio(right.sum(0), guess.sum(0)),
        "recall": _ratio(right.sum(0), gold.sum(0)),
    }
    values = {
        "micro_f1": float(_ratio(2 * right.sum(), both.sum())),
        "macro_f1": float(of_labels["f1"][occurs].mean()) if occurs.any() else 0.0,
        "samples_f1": float(rows.mean()),
        "subset_accuracy": float((gold == guess).all(1).mean()),
    }
    for name, column in of_labels.items():
        values |= {
            f"{name}/{n}": float(x) for n, x in zip(every, column, strict=True) if n in known
        }
    return values


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return `part / whole`, 0 where `whole` is 0."""
    return part / np.maximum(whole, 1)


def regression(scores: Iterable[float], predicted: Iterable[float]) -> dict[str, float]:
    """Return Pearson and Spearman correlation and the mean squared error.

    A correlation is 0 where it is undefined, because all scores or all predictions are equal.
    """
    scores = np.asarray(list(scores), np.float64)
    predicted = np.asarray(list(predicted), np.float64)
    defined = bool(np.ptp(scores) and np.ptp(predicted))
    return {
        "pearson": float(stats.pearsonr(scores, predicted)[0]) if defined else 0.0,
        "spearman": float(stats.spearmanr(scores, predicted)[0]) if defined else 0.0,
        "mse": float(np.mean((scores - predicted) ** 2)),
    }


def tagging(
    tags: Iterable[Iterable[str]], predicted: Iterable[Iterable[str]], bio: bool | None = None
) -> dict[str, float]:
    """Return accuracy over words and, for tags of entities, precision, recall and F1 of entities.

    An entity counts when both its ends and its type are right; see `tfnlp.tasks.entities`. `bio`
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
