"""Measures of sentence vectors, against scikit-learn and by hand."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score, roc_auc_score

from tfnlp.data import TaskExample
from tfnlp.tasks.embed import main_sentence_metric, retrieval, score_sentences


def space(count, size=6, seed=0):
    rng = np.random.default_rng(seed)
    return {f"t{n}": rng.standard_normal(size).astype("float32") for n in range(count)}


def cosines(vectors, pairs):
    found = [vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b])
             for a, b in pairs]  # fmt: skip
    return np.array(found)


def test_ratings_and_classes():
    vectors, pairs = space(40), [(f"t{n}", f"t{n + 20}") for n in range(20)]
    ratings = np.random.default_rng(1).integers(0, 6, 20).astype(float)
    rated = [TaskExample(pair, rating) for pair, rating in zip(pairs, ratings, strict=True)]
    found, near = score_sentences(rated, vectors), cosines(vectors, pairs)
    assert found["spearman"] == pytest.approx(spearmanr(ratings, near).statistic, abs=1e-6)
    assert found["pearson"] == pytest.approx(pearsonr(ratings, near).statistic, abs=1e-6)
    names = np.array(["entailment", "neutral", "contradiction"])[ratings.astype(int) % 3]
    classes = [TaskExample(pair, str(name)) for pair, name in zip(pairs, names, strict=True)]
    want = roc_auc_score(names == "entailment", near)
    assert score_sentences(classes, vectors) == {"auc": pytest.approx(want)}
    assert [main_sentence_metric(x) for x in (rated, classes)] == ["spearman", "auc"]
    with pytest.raises(ValueError, match="entailment"):
        score_sentences([TaskExample(pairs[0], "neutral")], vectors)
    with pytest.raises(ValueError, match="pairs"):
        score_sentences([TaskExample(("t1",), None)], vectors)


def test_retrieval_against_scikit_learn():
    count = 50
    vectors, pairs = space(2 * count), [(f"t{n}", f"t{n + count}") for n in range(count)]
    scores = np.array([[cosines(vectors, [(q, d)])[0] for _, d in pairs] for q, _ in pairs])
    relevant = np.eye(count)
    found = retrieval(pairs, vectors)
    want = label_ranking_average_precision_score(relevant, scores)  # one right text: its MRR
    assert found["mrr"] == pytest.approx(want)
    assert found["ndcg@10"] == pytest.approx(ndcg_score(relevant, scores, k=10))
    order = np.argsort(-scores, 1)
    for k in (1, 5, 20):
        share = np.mean([n in order[n, :k] for n in range(count)])
        assert found[f"recall@{k}"] == pytest.approx(share)


def test_other_right_texts_and_equal_ones():
    vectors = {"q": [1, 0], "a": [1, 0], "b": [1, 0.1], "c": [0.5, 1]}
    vectors = {name: np.array(v, "float32") for name, v in vectors.items()}
    # Both a and b are right for q: b ranks first among those that are not right.
    found = retrieval([("q", "a"), ("q", "b"), ("c", "c")], vectors)
    assert found["recall@1"] == 1 and found["mrr"] == 1
    # Vectors that are all equal find nothing.
    same = {name: np.ones(2, "float32") for name in vectors}
    assert retrieval([("q", "a"), ("c", "b")], same)["mrr"] == 0.5
