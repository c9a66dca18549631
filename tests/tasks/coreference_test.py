"""Coreference: measures, loss, clusters, and spans of texts."""

import csv
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import golden
from tfnlp.models import Coreference
from tfnlp.objectives.coreference import CoreferenceLoss
from tfnlp.tasks import Coref
from tfnlp.tasks.coref import CorefPlayground, clusters_of
from tfnlp.tasks.coreference_scores import coreference_scores

CASES = golden("coreference_scorer")
EXPECTED = list(csv.DictReader((CASES / "expected.csv").open()))
METRICS = {"bcub": "b3"}


def clusters_in(name):
    """The clusters of each document of a file: of a response a mention may be in several."""
    documents = []
    for line in (CASES / name).read_text().splitlines():
        if line.startswith("#begin"):
            clusters, begun, word = {}, {}, 0
            documents.append(clusters)
        elif line.strip() and not line.startswith("#"):
            for begins, number, ends in re.findall(r"(\()?(\d+)(\))?", line.split()[-1]):
                if not begins and not ends:
                    continue
                if begins:
                    begun.setdefault(number, []).append(word)
                    clusters.setdefault(number, [])
                if ends:
                    clusters[number].append((begun[number].pop(), word))
            word += 1
    return [list(clusters.values()) for clusters in documents]


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: f"{case['id']}-{case['metric']}")
def test_measures_equal_the_reference_scorers(case):
    found = coreference_scores(clusters_in(case["key"]), clusters_in(case["response"]))
    name = METRICS.get(case["metric"], case["metric"])
    names = (f"recall/{name}", f"precision/{name}", f"{name}_f1")
    want = [float(case[rate]) for rate in ("recall", "precision", "f1")]
    # What the key has nothing of the scorer calls 0.
    np.testing.assert_allclose([found.get(n, 0.0) for n in names], want, atol=5e-5)


def test_counts_are_summed_over_documents():
    keys = [[[1, 2, 3]], [[1, 2], [3]]]
    responses = [[[1, 2], [3]], [[1, 2], [3]]]
    found = coreference_scores(keys, responses)
    # MUC: of 2 + 1 links of the key 1 + 1; B3: 4/3 + 1/3 and 3 of 6 mentions.
    np.testing.assert_allclose(found["recall/muc"], 2 / 3)
    np.testing.assert_allclose(found["recall/b3"], (4 / 3 + 1 / 3 + 3) / 6)
    assert found["precision/muc"] == found["mention_f1"] == 1
    f1 = [found[f"{name}_f1"] for name in ("muc", "b3", "ceafe")]
    np.testing.assert_allclose(found["conll_f1"], np.mean(f1))
    assert coreference_scores([[]], [[[1, 2]]]) == {}
    alone = coreference_scores([[[1], [2]]], [[[1], [2]]])  # no links, which MUC is of
    assert alone["b3_f1"] == alone["ceafe_f1"] == 1
    assert "muc_f1" not in alone and "conll_f1" not in alone


def drawn(rng, batch=2, words=7, width=3):
    """Outputs of a layer with random weights, and clusters of some spans."""
    layer = Coreference(width, 4, kept=0.9, antecedents=4, dropout=0.0, name="coreference")
    inputs = {
        "tokens": keras.Input((words, 5), name="tokens"),
        "word_positions": keras.Input((words,), dtype="int32", name="word_positions"),
    }
    model = keras.Model(inputs, layer(inputs["tokens"], inputs["word_positions"]))
    positions = np.zeros((batch, words), "int32")
    positions[0, :-1] = np.arange(1, words)
    positions[1, :-3] = np.arange(1, words - 2)
    batch = {
        "tokens": rng.normal(size=(batch, words, 5)).astype("float32"),
        "word_positions": positions,
        "labels": rng.integers(0, 3, (batch, width, words)).astype("int32"),
        "weights": np.array([1, 1], "float32"),
    }
    return CoreferenceLoss(model), batch


def test_loss_is_that_of_the_formula():
    objective, batch = drawn(np.random.default_rng(1))
    outputs = {n: np.asarray(x) for n, x in objective.outputs(batch, training=False).items()}
    mentions, antecedents, kept = 0.0, 0.0, 0
    for row, words in enumerate((6, 4)):
        labels = batch["labels"][row]
        kept += int(np.ceil(0.9 * words))
        for i in range(words):
            for width in range(min(3, words - i)):
                p = 1 / (1 + np.exp(-outputs["mention_logits"][row, i, width]))
                mentions -= np.log(p if labels[width, i] else 1 - p)
        places = [divmod(span, 3) for span in outputs["spans"][row].tolist()]
        own = [labels[width, i] for i, width in places]
        for k, score in enumerate(outputs["span_logits"][row]):
            if score < -1e8:
                continue
            scores = outputs["antecedent_logits"][row, k]
            real = [(s, own[j]) for s, j in zip(scores, outputs["antecedents"][row, k], strict=True)
                    if s > -1e8]  # fmt: skip
            gold = [s for s, cluster in real if own[k] and cluster == own[k]]
            every = np.log(1 + sum(np.exp(s) for s, _ in real))
            antecedents += every - (np.log(np.sum(np.exp(gold))) if gold else 0.0)
    losses = {n: float(x) for n, x in objective.losses(batch, outputs).items()}
    np.testing.assert_allclose(losses["mention"], mentions, rtol=1e-5)
    np.testing.assert_allclose(losses["antecedent"], antecedents, rtol=1e-5)
    assert {n: float(x) for n, x in objective.targets(batch).items()} == dict.fromkeys(losses, kept)

    batch["weights"] = np.array([1, 0], "float32")
    alone = {n: x[:1] for n, x in batch.items()}
    some = {n: x[:1] for n, x in outputs.items()}
    one, other = objective.losses(batch, outputs), objective.losses(alone, some)
    for name in losses:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-6)


@pytest.mark.parametrize("singletons", [True, False])
def test_clusters_follow_the_best_antecedents(singletons):
    rng = np.random.default_rng(2)
    for _ in range(20):
        count = 8
        spans = rng.normal(size=(1, count)).astype("float32")
        antecedents = np.tile(np.arange(count, dtype="int32"), (1, count, 1))
        scores = rng.normal(size=(1, count, count)).astype("float32")
        scores[0][np.triu_indices(count)] = -1e9
        outputs = {"span_logits": spans, "antecedents": antecedents, "antecedent_logits": scores}
        outputs = {name: tf.constant(x) for name, x in outputs.items()}
        found = clusters_of(outputs, singletons).numpy()[0]
        clusters = []
        for i in range(count):
            if spans[0, i] <= 0:
                continue
            best = max((j for j in range(i) if spans[0, j] > 0), key=lambda j: scores[0, i, j],
                       default=None)  # fmt: skip
            if best is None or scores[0, i, best] <= 0:
                clusters.append([i])
            else:
                next(c for c in clusters if best in c).append(i)
        clusters = [c for c in clusters if singletons or len(c) > 1]
        want = np.full(count, -1)
        for number, cluster in enumerate(clusters):
            want[cluster] = number
        np.testing.assert_array_equal(found, want)


def test_what_a_task_learns_of_its_examples():
    class Settings:
        width = None

    rows = [("It was the old man and he .", [[[7, 18], [23, 25]]])]
    task = Coref.learnt_from(Coref.read(rows).examples, Settings, max_length=16)
    assert (task.width, task.singletons, task.window) == (3, False, 16)
    rows.append(("A b .", [[[0, 1]]]))
    assert Coref.learnt_from(Coref.read(rows).examples, Settings, max_length=16).singletons
    with pytest.raises(ValueError, match="have no mentions"):
        Coref.learnt_from(Coref.read([("A b .", [])]).examples, Settings, max_length=16)


def test_a_page_shows_clusters():
    found = {"starts": [0, 8, 17, -1], "ends": [3, 14, 19, -1], "clusters": [0, 1, 1, -1]}
    shown = CorefPlayground({}).shown({"text": "Zoë sah Jürgen . Er lachte ."}, found)
    assert shown == {"clusters": [[[0, 3]], [[8, 14], [17, 19]]]}
