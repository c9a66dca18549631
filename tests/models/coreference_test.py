"""Scores of coreference against their formulas in numpy."""

import keras
import numpy as np
import pytest

from tests.layers.reference import randomize
from tfnlp.models import Coreference

WIDTH, KEPT, ANTECEDENTS = 3, 0.5, 3
WORDS = (9, 6)  # of two documents


def relu(x):
    return np.maximum(x, 0)


def bucket(distance):
    return distance - 1 if distance <= 4 else min(11, int(np.log2(distance)) + 2)


def expected(w, x):
    """The outputs for the words `[M, F]` of one document."""
    spans, vectors, scores = [], {}, {}
    for i in range(len(x)):
        for end in range(i, min(len(x), i + WIDTH)):
            share = np.exp(x[i : end + 1] @ w["attention"])[:, 0]
            head = share @ x[i : end + 1] / share.sum()
            v = x[i] @ w["first"] + x[end] @ w["last"] + head @ w["inner"]
            v = relu(v + w["widths"][end - i] + w["span_bias"])
            hidden = relu(v @ w["mention_hidden"] + w["mention_bias"])
            vectors[i, end - i], scores[i, end - i] = (
                v,
                float((hidden @ w["mention"])[0] + w["prior"]),
            )
            spans.append((i, end - i))
    kept = sorted(sorted(spans, key=lambda s: -scores[s])[: int(np.ceil(KEPT * len(x)))])
    pairs = []
    for i, one in enumerate(kept):
        coarse, fine = {}, {}
        for j, other in enumerate(kept[:i]):
            v, u = vectors[one], vectors[other]
            coarse[j] = scores[one] + scores[other] + v @ w["coarse"] @ u
            coarse[j] += w["near"][bucket(i - j), 0]
            hidden = v @ w["span"] + u @ w["antecedent"] + (v * u) @ w["product"]
            hidden = relu(hidden + w["distances"][bucket(i - j)] + w["pair_bias"])
            fine[j] = coarse[j] + float((hidden @ w["pair"])[0])
        best = sorted(coarse, key=lambda j: -coarse[j])[:ANTECEDENTS]
        pairs.append({j: fine[j] for j in best})
    return scores, kept, pairs


@pytest.fixture(scope="module")
def layer():
    layer = Coreference(WIDTH, 4, kept=KEPT, antecedents=ANTECEDENTS, dropout=0.5)
    layer.build((None, None, 5), (None, None))
    randomize(layer, np.random.default_rng(3))
    return layer


def outputs(layer, tokens, padding):
    """Of two documents in windows of 4 tokens, words after every third of which one is left out."""
    length = 12 + padding
    positions = np.zeros((2, length), "int32")
    for row, count in enumerate(WORDS):
        positions[row, :count] = np.arange(1, 12)[:count]
    x = np.zeros((2, length, 5), "float32")
    x[:, :12] = tokens
    found = layer(x.reshape(-1, 4, 5), positions)
    return {name: keras.ops.convert_to_numpy(value) for name, value in found.items()}


@pytest.mark.parametrize("padding", [0, 8])
def test_scores_are_those_of_the_formulas(layer, padding):
    tokens = np.random.default_rng(0).normal(size=(2, 12, 5)).astype("float32")
    found = outputs(layer, tokens, padding)
    w = {v.path.split("/")[-1]: keras.ops.convert_to_numpy(v) for v in layer.trainable_weights}
    for row, count in enumerate(WORDS):
        scores, kept, pairs = expected(w, tokens[row, 1 : count + 1])
        mentions = found["mention_logits"][row]
        for (i, width), score in scores.items():
            np.testing.assert_allclose(mentions[i, width], score, atol=1e-5)
        assert (mentions > -1e8).sum() == len(scores)
        size = len(kept)
        assert [divmod(s, WIDTH) for s in found["spans"][row, :size].tolist()] == kept
        wanted = [scores[span] for span in kept]
        np.testing.assert_allclose(found["span_logits"][row, :size], wanted, atol=1e-5)
        assert (found["span_logits"][row, size:] < -1e8).all()
        for i, want in enumerate(pairs):
            own = zip(found["antecedents"][row, i], found["antecedent_logits"][row, i], strict=True)
            own = {int(j): score for j, score in own if score > -1e8}
            assert own.keys() == want.keys()
            np.testing.assert_allclose([own[j] for j in want], list(want.values()), atol=1e-4)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="kept=4 must be above 0 and at most width=3"):
        Coreference(3, kept=4)
    with pytest.raises(ValueError, match="units=0 must be at least 1"):
        Coreference(3, units=0)
