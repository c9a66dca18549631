"""The NNLM against equation 1 in numpy, and its training against a search by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers.reference import randomize
from tfnlp import tasks, training
from tfnlp.data import LanguageModelCorpus, Ngrams
from tfnlp.models import NNLM, nnlm, nnlm_pretrainer
from tfnlp.text import train_words

V, C, M, H = 13, 3, 4, 5


def make(direct=False, hidden_size=H, seed=0, **more):
    model = nnlm(V, C, M, hidden_size, direct=direct, **more)
    for layer in model.layers:
        if layer.weights:
            randomize(layer, np.random.default_rng(seed), 0.5)
    return model


def probabilities(model, ids):
    """`softmax(b + W x + U tanh(d + H x))`, float64 `[B, V]`, a word at a time."""
    weights = {
        f"{layer.name}/{w.name}": w.numpy().astype("float64")
        for layer in model.layers
        for w in layer.weights
    }
    kernel, b = weights["softmax/kernel"], weights["softmax/bias"]  # [V, h + (n - 1) m]
    hidden = weights["hidden/bias"].shape[0] if "hidden/bias" in weights else 0
    rows = []
    for context in ids:
        x = np.concatenate([weights["token_embedding/embeddings"][i] for i in context])
        y = b.copy()
        if hidden:
            a = np.tanh(weights["hidden/bias"] + weights["hidden/kernel"].T @ x)
            y += kernel[:, :hidden] @ a  # U
        if kernel.shape[1] > hidden:
            y += kernel[:, hidden:] @ x  # W
        rows.append(np.exp(y) / np.exp(y).sum())
    return np.array(rows)


def draw(rows=6):
    rng = np.random.default_rng(3)
    return rng.integers(0, V, (rows, C)).astype("int32"), rng.integers(0, V, rows).astype("int32")


@pytest.mark.parametrize("direct, hidden_size", [(False, H), (True, H), (True, 0)])
def test_probabilities_are_equation_1(direct, hidden_size):
    model, (ids, targets) = make(direct, hidden_size), draw()
    outputs = model({"input_word_ids": ids})
    want = probabilities(model, ids)
    np.testing.assert_allclose(tf.nn.softmax(outputs["lm_logits"]), want, rtol=1e-5)
    losses = nnlm_pretrainer(model)({"input_word_ids": ids, "targets": targets})["losses"]
    np.testing.assert_allclose(losses, -np.log(want[np.arange(6), targets]), rtol=1e-5)
    table = model.get_layer("token_embedding").embeddings
    np.testing.assert_array_equal(outputs["word_emb"], tf.gather(table, ids))
    assert outputs["features"].shape == (6, hidden_size + C * M * direct)


def test_one_table_for_all_places():
    model = make()
    count = V * M + C * M * H + H + V * H + V
    assert model.count_params() == count
    ids = np.array([[1, 2, 3], [3, 2, 1]], "int32")
    logits = model({"input_word_ids": ids})["lm_logits"].numpy()
    assert np.abs(logits[0] - logits[1]).max() > 0.01  # the places have weights of their own


def test_the_sampled_softmax_is_for_training_alone():
    keras.utils.set_random_seed(0)
    model, (ids, targets) = make(num_samples=4), draw()
    batch = {"input_word_ids": ids, "targets": targets}
    full = -np.log(probabilities(model, ids)[np.arange(6), targets])
    pretrainer = nnlm_pretrainer(model)
    np.testing.assert_allclose(pretrainer(batch)["losses"], full, rtol=1e-5)
    draws = np.array([pretrainer(batch, training=True)["losses"] for _ in range(20)])
    assert draws.std(0).min() > 1e-3
    assert np.abs(draws.mean(0) - full).max() < 0.5


def test_published_size():
    model = nnlm(50, **NNLM)
    assert model.input["input_word_ids"].shape == (None, 4)
    assert model.count_params() == 50 * 30 + 4 * 30 * 100 + 100 + 50 * 100 + 50


# --- Learning


def toy():
    """A text in which the word before the last decides the next one."""
    rng = np.random.default_rng(0)
    sentences = []
    for _ in range(60):
        words = ["a", "b"]
        while len(words) < 9:
            words.append({"a": "c", "b": "a", "c": "b"}[words[-2]] if rng.random() < 0.9 else "b")
        sentences.append(" ".join(words))
    return LanguageModelCorpus.build([sentences], train_words(sentences), progress=False)


def trainer(corpus, folder=None, **arguments):
    keras.utils.set_random_seed(1)
    model = nnlm(corpus.vocab_size, 2, 8, 16, dropout=0.1)
    return training.Trainer(
        tasks.NNLMPretraining(nnlm_pretrainer(model)),
        training.bert_adamw(),
        training.schedule("linear", 3e-2, 60, 3),
        directory=folder,
        steps_per_call=5,
        **arguments,
    )


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    corpus = toy()
    ngrams = Ngrams(corpus, context=2, batch_size=64, seed=2)
    whole = trainer(corpus, tmp_path_factory.mktemp("whole"))
    whole.fit(ngrams, 60)
    return corpus, ngrams, whole


@pytest.mark.slow
def test_it_learns_what_there_is_to_learn(learnt):
    corpus, ngrams, whole = learnt
    results = whole.evaluate(ngrams.evaluation_batches())
    # The counts of trigrams are the best that any model of two words can do.
    seen = {}
    for ids in np.split(corpus.ids, corpus.sentence_starts[1:-1]):
        row = [corpus.begin_id] * 2 + ids.tolist() + [corpus.end_id]
        for a, b, c in zip(row, row[1:], row[2:], strict=False):
            seen.setdefault((a, b), []).append(c)
    best = -sum(np.log(next_.count(c) / len(next_)) for next_ in seen.values() for c in next_)
    best = np.exp(best / corpus.num_tokens)
    assert best * 0.999 < results["perplexity"] < best * 1.15
    assert results["perplexity"] == pytest.approx(np.exp(results["lm_loss"]))
    assert results["perplexity"] < 0.6 * corpus.vocab_size


def test_evaluation_does_not_depend_on_the_batches(learnt):
    corpus, _, whole = learnt
    losses = [
        whole.evaluate(Ngrams(corpus, context=2, batch_size=size).evaluation_batches())["lm_loss"]
        for size in (64, 601)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_run_that_was_stopped_ends_the_same(learnt, tmp_path):
    corpus, ngrams, whole = learnt
    trainer(corpus, tmp_path).fit(ngrams, 25, checkpoint_every=25)
    second = trainer(corpus, tmp_path)
    second.fit(ngrams, 60)
    for got, want in zip(second.task.model.weights, whole.task.model.weights, strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
