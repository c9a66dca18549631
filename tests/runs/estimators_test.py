"""Estimators within scikit-learn's own tools: clone, searches, pipelines, pickle."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import tfnlp
from tests.runs.conftest import ROWS

pytestmark = pytest.mark.slow

TEXTS = [text for text, _ in ROWS]
LABELS = np.array([7 if label == "yes" else 3 for _, label in ROWS])
FAST = dict(batch_size=8, learning_rate=0.05, max_length=12)


def test_a_classifier_is_searched_and_pickled(run):
    one = tfnlp.TextClassifier(run.path, epochs=3, **FAST)
    assert clone(one).get_params() == one.get_params() and "epochs=3" in repr(one)
    assert "epochs" in one._repr_html_()
    with pytest.raises(NotFittedError):
        one.predict(TEXTS)
    search = GridSearchCV(one, {"learning_rate": [1e-9, 0.01]}, cv=2).fit(TEXTS, LABELS)
    tried = search.cv_results_
    assert search.best_params_ == tried["params"][np.argmax(tried["mean_test_score"])]
    assert not hasattr(one, "run_")
    best = search.best_estimator_
    probabilities = search.predict_proba(TEXTS[:6])
    assert probabilities.shape == (6, 2) and best.classes_.tolist() == [3, 7]
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)
    labels = [p["label"] for p in best.run_.predict(TEXTS[:6])]
    np.testing.assert_array_equal(search.predict(TEXTS[:6]), labels)
    np.testing.assert_array_equal(best.classes_[probabilities.argmax(1)], labels)
    again = pickle.loads(pickle.dumps(search))
    folder = best.run_.folder
    np.testing.assert_array_equal(again.predict_proba(TEXTS[:6]), probabilities)
    assert again.best_estimator_.run_.folder != folder
    with pytest.raises(ValueError, match="no argument epoch; did you mean epochs"):
        one.set_params(epoch=3)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        one.fit(TEXTS, LABELS[:3])
    with pytest.raises(ValueError, match="`output` is not for an estimator"):
        one.set_params(output="run")
    with pytest.raises(ValueError, match="`model` .* must be a path or a name"):
        tfnlp.TextClassifier(run)


def test_a_tagger_is_scored(run):
    words = [text.split() for text in TEXTS]
    tags = [["X" if word in ("good", "bad") else "O" for word in row] for row in words]
    tagger = clone(tfnlp.Tagger(run.path, epochs=4, **FAST)).fit(words[8:], tags[8:])
    found = tagger.predict(words[:8])
    pairs = zip(sum(found, []), sum(tags[:8], []), strict=True)
    accuracy = np.mean([one == other for one, other in pairs])
    assert tagger.score(words[:8], tags[:8]) == pytest.approx(accuracy) and accuracy > 0.7


def test_vectors_of_texts_feed_a_classifier(run):
    pipeline = make_pipeline(tfnlp.Embedder(run.path, pooling="max"), LogisticRegression(C=1e3))
    pipeline.fit(np.array(TEXTS), LABELS)
    assert pipeline.score(TEXTS, LABELS) > 0.9
    vectors = pipeline[:-1].transform(TEXTS)
    np.testing.assert_array_equal(vectors, tfnlp.load(run.path).embed(TEXTS, pooling="max"))
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.predict_proba(TEXTS), pipeline.predict_proba(TEXTS))
    pipeline.set_params(embedder__pooling="mean")
    assert cross_val_score(pipeline, TEXTS, LABELS, cv=2).shape == (2,)
