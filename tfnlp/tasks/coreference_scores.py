"""The measures of coreference: MUC, B3, CEAF, BLANC and their mean, as CoNLL-2012 has them.

Counts are summed over documents. They are those of the reference scorer (Pradhan et al. 2014),
version 8, in which spans need not be the same in key and response.
"""

import itertools
import math
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

Clusters = Sequence[Sequence[Hashable]]  # of a document: each a list of mentions


# What of the key is right, of how much, and the same of the response; summed over documents.
Counts = tuple[float, float, float, float]


def _rates(right_key: float, key: float, right_response: float, response: float) -> list[float]:
    """Return recall, precision, 0 without a response, and F1."""
    recall, precision = right_key / key, right_response / response if response else 0.0
    total = recall + precision
    return [recall, precision, 2 * recall * precision / total if total else 0.0]


def coreference_scores(keys: Iterable[Clusters], responses: Iterable[Clusters]) -> dict[str, float]:
    """Return measures of documents: `conll_f1`, and F1, recall and precision of each metric.

    `conll_f1` is the mean F1 of MUC, B3 and CEAF of entities (CoNLL-2011). Names are
    `METRIC_f1`, `recall/METRIC` and `precision/METRIC` with METRIC "muc" (Vilain et al. 1995), "b3"
    (Bagga & Baldwin 1998), "ceafm" and "ceafe" (Luo 2005, phi 3 and 4), "blanc" (Luo et al. 2014)
    and "mention", of spans alone. Those of which the key has nothing are left out.

    Args:
        keys, responses: for each document the clusters of its mentions. A mention that is in a
            response twice counts where it is first.
    """
    pairs = [(_once(key), _once(response)) for key, response in zip(keys, responses, strict=True)]
    found: dict[str, float] = {}
    for name, counts in (
        ("mention", _mentions), ("muc", _muc), ("b3", _b3), ("ceafm", _ceafm), ("ceafe", _ceafe),
    ):  # fmt: skip
        total = [sum(x) for x in zip(*(counts(*pair) for pair in pairs), strict=True)]
        if total[1]:
            found |= zip(_names(name), _rates(*total), strict=True)
    if "mention_f1" in found:
        found |= _blanc(pairs)
    if "muc_f1" in found:  # links, and so mentions
        found["conll_f1"] = (found["muc_f1"] + found["b3_f1"] + found["ceafe_f1"]) / 3
    return found


def _once(clusters: Clusters) -> list[set]:
    """Return clusters as sets, without mentions that an earlier one has, and without empty ones."""
    seen: set = set()
    found = []
    for cluster in clusters:
        new = {mention for mention in cluster if mention not in seen}
        seen |= new
        if new:
            found.append(new)
    return found


def _mentions(key: list[set], response: list[set]) -> Counts:
    keys, responses = set().union(*key), set().union(*response)
    right = len(keys & responses)
    return right, len(keys), right, len(responses)


def _muc(key: list[set], response: list[set]) -> Counts:
    return *_links(key, response), *_links(response, key)


def _links(clusters: list[set], others: list[set]) -> tuple[int, int]:
    """Return how many of the fewest links that join each cluster the others have, of how many."""
    of = {mention: number for number, other in enumerate(others) for mention in other}
    right = 0
    for cluster in clusters:
        parts = {of[m] for m in cluster if m in of}
        right += len(cluster) - len(parts) - sum(m not in of for m in cluster)
    return right, sum(len(cluster) - 1 for cluster in clusters)


def _b3(key: list[set], response: list[set]) -> Counts:
    return *_overlaps(key, response), *_overlaps(response, key)


def _overlaps(clusters: list[set], others: list[set]) -> tuple[float, int]:
    """Return `sum_mentions |cluster & other| / |cluster|` and the number of mentions."""
    common = _common(clusters, others)
    sizes = np.array([len(cluster) for cluster in clusters])
    return float((common**2 / sizes[:, None]).sum()), int(sizes.sum())


def _common(clusters: list[set], others: list[set]) -> np.ndarray:
    """Return how many mentions each pair of clusters shares: float `[K, R]`."""
    shape = (len(clusters), len(others))
    return np.array([[len(a & b) for b in others] for a in clusters], float).reshape(shape)


def _ceafm(key: list[set], response: list[set]) -> Counts:
    common = _common(key, response)
    right = _assigned(common)
    return right, sum(map(len, key)), right, sum(map(len, response))


def _ceafe(key: list[set], response: list[set]) -> Counts:
    sizes = np.add.outer([len(a) for a in key], [len(b) for b in response])
    right = _assigned(2 * _common(key, response) / np.maximum(sizes, 1))
    return right, len(key), right, len(response)


def _assigned(similarity: np.ndarray) -> float:
    """Return the largest sum of similarities `[K, R]` of pairs that share no cluster."""
    return float(similarity[linear_sum_assignment(-similarity)].sum())


def _blanc(pairs: list[tuple[list[set], list[set]]]) -> dict[str, float]:
    """Return recall, precision and F1 of BLANC: means over links in clusters and between them.

    Of documents without any link of one kind those of the other kind count alone; without any links
    it is 1 where the mentions are the same, else 0.
    """
    same = np.zeros(3)  # right, key, response: of links in clusters
    apart = np.zeros(3)  # and between them
    equal = True
    for key, response in pairs:
        in_key, in_response = (set(_links_in(clusters)) for clusters in (key, response))
        keys, responses = set().union(*key), set().union(*response)
        equal &= keys == responses
        same += (len(in_key & in_response), len(in_key), len(in_response))
        joined, shared = in_key | in_response, itertools.combinations(keys & responses, 2)
        apart += (
            sum(frozenset(pair) not in joined for pair in shared),
            math.comb(len(keys), 2) - len(in_key),
            math.comb(len(responses), 2) - len(in_response),
        )
    rates = [_rates(x[0], x[1], x[0], x[2]) for x in (same, apart) if x[1]]
    values = np.mean(rates, 0).tolist() if rates else [float(equal)] * 3
    return dict(zip(_names("blanc"), values, strict=True))


def _names(metric: str) -> tuple[str, str, str]:
    return f"recall/{metric}", f"precision/{metric}", f"{metric}_f1"


def _links_in(clusters: list[set]) -> Iterable[frozenset]:
    return (frozenset(pair) for c in clusters for pair in itertools.combinations(c, 2))
