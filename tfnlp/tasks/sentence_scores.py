"""Measures of sentence vectors: against what people rated, and in retrieval."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from tfnlp.tasks.similarity import regression

CUTOFFS = (1, 5, 20)
_BLOCK = 1024  # queries at a time
_GAIN = 10  # ranks that nDCG looks at


def main_sentence_metric(examples: Sequence[Any]) -> str:
    """Return the name of the measure that picks the best checkpoint."""
    label = examples[0].label
    return "mrr" if label is None else "auc" if isinstance(label, str) else "spearman"


def score_sentences(examples: Sequence[Any], vectors: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the measures of vectors on pairs of texts, by what the pairs are.

    Rated pairs: `spearman` and `pearson` of the cosines with the ratings. Pairs with a class as in
    SNLI: `auc`, the share of pairs of an entailment and another pair in which the entailment has
    the larger cosine. Pairs alone: `recall@1`, `recall@5`, `recall@20`, `mrr` and `ndcg@10` of the
    second text of each among the second texts of all, see `retrieval`.

    Args:
        examples: `tfnlp.data.TaskExample`s with two or more texts, all of one of these kinds.
        vectors: of each text float32 `[D]`.

    Raises:
        ValueError: for examples of one text, or classes of which none is "entailment" or all are.
    """
    if any(len(example.segments) < 2 for example in examples):
        raise ValueError("expected pairs of texts to measure on; got a single text")
    label = examples[0].label
    if label is None:
        return retrieval([example.segments[:2] for example in examples], vectors)
    u, v = (unit_rows([vectors[e.segments[n]] for e in examples]) for n in range(2))
    cosines = np.sum(u * v, 1)
    labels = [example.label for example in examples]
    if isinstance(label, str):
        right = [name == "entailment" for name in labels]
        if len(set(right)) < 2:
            raise ValueError(
                "expected pairs with the class entailment and others; got only "
                f"{', '.join(sorted(set(labels))[:5])}"
            )
        return {"auc": float(roc_auc_score(right, cosines))}
    found = regression(labels, cosines.tolist())
    return {name: found[name] for name in ("spearman", "pearson")}


def retrieval(
    pairs: Sequence[Sequence[str]], vectors: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Return how well the second text of each pair is found by the first one.

    The rank of a text is one more than the number of other texts whose cosine with the query is as
    large or larger; other right texts of the same query do not count. `recall@k` is the share of
    ranks up to k, `mrr` the mean of 1 / rank, `ndcg@10` the mean of `1 / log2(1 + rank)`, 0 above
    rank 10.

    Args:
        pairs: query and text; each distinct second text is one of those that are ranked.
        vectors: of each text float32 `[D]`.
    """
    documents = {text: place for place, text in enumerate(dict.fromkeys(d for _, d in pairs))}
    right: dict[str, set[int]] = {}
    for query, text in pairs:
        right.setdefault(query, set()).add(documents[text])
    keys = unit_rows([vectors[text] for text in documents])  # [M, D]
    ranks = []
    for first in range(0, len(pairs), _BLOCK):
        part = pairs[first : first + _BLOCK]
        scores = unit_rows([vectors[query] for query, _ in part]) @ keys.T  # [b, M]
        for row, (query, text) in zip(scores, part, strict=True):
            own = documents[text]
            value = row[own]
            row[list(right[query])] = -np.inf
            ranks.append(1 + int(np.sum(row >= value)))
    ranks = np.array(ranks)
    found = {f"recall@{k}": float(np.mean(ranks <= k)) for k in CUTOFFS}
    gains = np.where(ranks <= _GAIN, 1 / np.log2(1 + ranks), 0.0)
    return {**found, "mrr": float(np.mean(1 / ranks)), f"ndcg@{_GAIN}": float(np.mean(gains))}


def unit_rows(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Return rows divided by their norms; rows of zeros stay."""
    rows = np.asarray(rows, np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
