"""Sentence vectors: losses against NumPy, whatever parts a batch is computed in, and measures."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score, roc_auc_score

from tests.support import ROOT, run_python
from tests.training.toy import ToyBatches, assert_same, two_replicas
from tfnlp import models, tasks, training
from tfnlp.data import TaskExample
from tfnlp.objectives.ranking import ranking_losses
from tfnlp.tasks.embed import main_sentence_metric, retrieval, score_sentences
from tfnlp.training import default_strategy

N, D, T = 8, 8, 5
SIZES = dict(num_layers=1, hidden_size=D, num_heads=2, intermediate_size=16, max_positions=T)


def reference(vectors, ids, weights, temperature, both_ways):
    """The formula, one example at a time."""
    e = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    count, texts = ids.shape
    losses, first = np.zeros(count), np.zeros(count)
    for i in range(count):
        right = e[i, 0] @ e[i, 1] / temperature
        others = [
            e[i, 0] @ e[j, s] / temperature
            for s in range(1, texts)
            for j in range(count)
            if weights[j] and ids[j, s] not in (ids[i, 0], ids[i, 1])
            and not (s == 1 and (j == i or ids[j, 0] == ids[i, 0]))
        ]  # fmt: skip
        losses[i] = np.log(np.exp([right, *others]).sum()) - right
        first[i] = all(right >= other for other in others)
        if both_ways:
            others = [
                e[i, 1] @ e[j, 0] / temperature
                for j in range(count)
                if j != i and weights[j]
                and ids[j, 0] not in (ids[i, 0], ids[i, 1]) and ids[j, 1] != ids[i, 1]
            ]  # fmt: skip
            losses[i] = (losses[i] + np.log(np.exp([right, *others]).sum()) - right) / 2
    return losses, first


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("texts", [2, 3])
def test_ranking_is_the_formula(texts, both_ways):
    rng = np.random.default_rng(texts)
    vectors = rng.standard_normal((N, texts, D)).astype("float32")
    ids = np.arange(N * texts).reshape(N, texts).astype("int32")
    ids[3] = ids[1]  # the same example twice
    ids[4, 0] = ids[2, 0]  # a query with two right texts
    ids[5, 1] = ids[6, 1]  # a text that is right for two queries
    ids[7, 0] = ids[6, 1]  # a text that is a query elsewhere
    for a, b in ((3, 1), ((4, 0), (2, 0)), ((5, 1), (6, 1)), ((7, 0), (6, 1))):
        vectors[a] = vectors[b]
    weights = np.ones(N, "float32")
    weights[0] = 0
    found = ranking_losses(*map(tf.constant, (vectors, ids, weights)), 0.3, both_ways)
    for a, b in zip(found, reference(vectors, ids, weights, 0.3, both_ways), strict=True):
        np.testing.assert_allclose(a[1:], b[1:], atol=1e-5)
    # A text of weight 0 is no candidate: its vector does not matter.
    vectors[0] += 1
    again = ranking_losses(*map(tf.constant, (vectors, ids, weights)), 0.3, both_ways)
    np.testing.assert_allclose(again[0][1:], found[0][1:], atol=1e-6)


def test_ranking_is_that_of_sentence_transformers():
    """`MultipleNegativesRankingLoss` and its symmetric form, scale 20, of version 6.2."""
    rng = np.random.default_rng(0)
    vectors = np.stack([rng.standard_normal((16, 24)).astype("float32") for _ in range(3)], 1)
    ids, weights = np.arange(48, dtype="int32").reshape(16, 3), np.ones(16, "float32")
    for texts, both_ways, loss in ((3, False, 8.729264), (2, False, 7.015591), (2, True, 6.877398)):
        given = (tf.constant(x[:, :texts]) for x in (vectors, ids))
        found = ranking_losses(*given, tf.constant(weights), 0.05, both_ways)[0]
        np.testing.assert_allclose(tf.reduce_mean(found), loss, rtol=2e-6)


def network(texts=2, classes=None, dropout=0.0):
    keras.utils.set_random_seed(1)
    encoder = models.bert(
        20, **SIZES, dropout=dropout, attention_dropout=dropout, initializer_range=0.5
    )
    return models.siamese(encoder, texts, classes)


class Pairs(ToyBatches):
    """Random batches, a function of the step."""

    def batch(self, step, texts=2, kind=None):
        rng = np.random.default_rng(step)
        sizes = rng.integers(1, T + 1, (N, texts, 1))
        mask = (np.arange(T) < sizes).astype("int32")
        batch = {
            "input_word_ids": rng.integers(1, 20, (N, texts, T)).astype("int32") * mask,
            "input_mask": mask,
            "input_type_ids": np.zeros_like(mask),
            "text_ids": np.arange(N * texts).reshape(N, texts).astype("int32"),
            "weights": np.ones(N, "float32"),
        }
        batch["weights"][-1] = 0
        if kind is not None:
            batch["labels"] = (rng.random(N) * (3 if kind == "int32" else 1)).astype(kind)
        return batch


@pytest.mark.parametrize("sizes", [(), (2, 4)])
def test_cosine_and_softmax_are_the_formulas(sizes):
    model, batch = network(classes=3), Pairs(N).batch(0, kind="float32")
    outputs = model({name: batch[name] for name in model.input})
    vectors = np.asarray(outputs["sentence_embeddings"], "float64")
    want = []
    for size in (*sizes, D):
        e = vectors[..., :size]
        e = e / np.linalg.norm(e, axis=-1, keepdims=True)
        want.append(np.sum(((e[:, 0] * e[:, 1]).sum(-1) - batch["labels"])[:-1] ** 2))
    task = tasks.SentenceTraining(model, "cosine", sizes=sizes)
    np.testing.assert_allclose(task.losses(batch, outputs)["cosine"], np.mean(want), rtol=1e-5)

    classes = Pairs(N).batch(0, kind="int32")
    u, v = vectors[:, 0], vectors[:, 1]
    dense = model.get_layer("classifier")
    logits = np.concatenate([u, v, abs(u - v)], 1) @ dense.kernel.numpy() + dense.bias.numpy()
    np.testing.assert_allclose(outputs["class_logits"], logits, atol=1e-5)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    want = -np.log(p[np.arange(N), classes["labels"]])[:-1].sum()
    task = tasks.SentenceTraining(model, "softmax")
    np.testing.assert_allclose(task.losses(classes, outputs)["softmax"], want, rtol=1e-5)
    right = (logits.argmax(1) == classes["labels"])[:-1].sum()
    assert float(task.metrics(classes, outputs)["softmax_accuracy"][1]) == right


def train(strategy=None, steps=3, sizes=(2,), start=None, **arguments):
    strategy = strategy or default_strategy()
    with strategy.scope():
        task = tasks.SentenceTraining(network(), "ranking", 0.2, sizes=sizes)
        if start is not None:
            task.model.set_weights(start)
        # Adam would make steps of the rounding errors of gradients that are 0, such as those of
        # the biases of keys.
        optimizer = keras.optimizers.SGD(0.5)
    settings = {"strategy": strategy, "clip_norm": 0.5, **arguments}
    trainer = training.Trainer(task, optimizer, **settings)
    history = trainer.fit(Pairs(N), steps, log_every=1, progress=False)
    return history.train, [np.asarray(v) for v in task.model.trainable_variables]


@pytest.mark.slow
def test_every_split_of_the_batch_compares_the_same_texts():
    rows, weights = train()
    assert rows[0]["ranking_accuracy"] < 1
    for arguments in (
        {"accumulation": 4},
        {"strategy": two_replicas(), "accumulation": 2, "steps_per_call": 3},
        {"accumulation": 2, "jit_compile": True},
    ):
        found, after = train(**arguments)
        assert_same(weights, after, atol=2e-5)
        if "steps_per_call" not in arguments:
            for a, b in zip(rows, found, strict=True):
                for name in ("loss", "gradient_norm", "ranking_accuracy"):
                    np.testing.assert_allclose(a[name], b[name], rtol=1e-4)


_IN_JAX = """
import sys
import numpy as np
from tests.tasks.sentence_training_test import train

given = np.load(sys.argv[2])
start = [given[f"arr_{n}"] for n in range(len(given.files))]
rows, weights = train(accumulation=2, start=start)
np.savez(sys.argv[1], *weights, loss=[row["loss"] for row in rows])
"""


@pytest.mark.long
def test_jax_compares_the_same_texts(tmp_path):
    flags = "--xla_force_host_platform_device_count=2"
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    start = network().get_weights()  # random numbers differ
    np.savez(tmp_path / "start.npz", *start)
    files = tmp_path / "jax.npz", tmp_path / "start.npz"
    run_python(_IN_JAX, *files, env=env, folder=ROOT)
    found = np.load(tmp_path / "jax.npz")
    rows, weights = train(start=start)
    np.testing.assert_allclose(found["loss"], [row["loss"] for row in rows], rtol=2e-5)
    assert_same(weights, [found[f"arr_{n}"] for n in range(len(weights))], atol=2e-5)


class Watched(tasks.SentenceTraining):
    """Measures how far vectors are from those that were compared."""

    def comparison(self, whole):
        return {**super().comparison(whole), "vectors": whole["vectors"]}

    def metrics(self, batch, outputs):
        change = outputs["sentence_embeddings"] - batch["compared/vectors"]
        return {"change": (self.loss, tf.reduce_sum(tf.abs(change)))}


@pytest.mark.slow
def test_dropout_is_the_same_in_both_passes():
    task = Watched(network(dropout=0.3), "ranking")
    trainer = training.Trainer(task, training.AdamW(), 1e-2, accumulation=2)
    rows = trainer.fit(Pairs(N), 2, log_every=1, progress=False).train
    assert max(row["change"] for row in rows) < 1e-5


def test_what_does_not_fit_is_refused():
    model = network(classes=2)
    for options in ({"sizes": (9,)}, {"loss": "softmax", "sizes": (4,)}):
        with pytest.raises(ValueError, match="sizes"):
            tasks.SentenceTraining(model, **options)


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
