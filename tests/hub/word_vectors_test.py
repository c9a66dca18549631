"""The module of word vectors, against sums in numpy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.hub.alone import KERAS, again, alone, listed, trained
from tfnlp import hub
from tfnlp.hub.modules.word_vectors import COMBINERS
from tfnlp.text import Subwords, WordVectors

D = 4
WORDS = ["the", "cat", "北京", "sat", "Cat"]
TEXTS = ["the cat  sat", "", "unseen 北京 cat unseen", "naïve"]  # what `look` reads
POWER = {"sum": 0, "sqrtn": 0.5, "mean": 1}


def make(words=WORDS, subwords=False, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((len(words), D)).astype("float32")
    ngrams = Subwords(rng.standard_normal((30, D)).astype("float32"), 2, 4) if subwords else None
    return WordVectors(list(words), table, subwords=ngrams)


def expected(vectors, texts, combiner="sqrtn", unknown=None):
    """Sums of the words' vectors; `unknown` is that of words without one."""
    rows = []
    for words in (text.split() for text in texts):
        found = np.zeros(D)
        for word in words:
            if word in vectors or vectors.subwords is not None:
                found = found + vectors.vector(word)
            elif unknown is not None:
                found = found + unknown
        rows.append(found / max(1, len(words)) ** POWER[combiner])
    return np.array(rows)


@pytest.mark.parametrize("subwords", [False, True])
@pytest.mark.parametrize("combiner", COMBINERS)
def test_combiners(combiner, subwords):
    vectors = make(subwords=subwords)
    module = hub.WordVectorsModule(vectors, combiner=combiner)
    got = module(tf.constant(TEXTS))
    np.testing.assert_allclose(got, expected(vectors, TEXTS, combiner), atol=1e-6)
    np.testing.assert_array_equal(got[1], 0)


def test_unseen_words_share_buckets():
    vectors = make()
    module = hub.WordVectorsModule(vectors, oov_buckets=3)
    assert module.embeddings.shape == (len(WORDS) + 3, D)
    module.embeddings.assign(tf.random.normal(module.embeddings.shape, seed=1))
    table = module.embeddings.numpy()
    words = [f"unseen{i}" for i in range(40)]
    found = module(tf.constant(words)).numpy()
    rows = len(WORDS) + tf.strings.to_hash_bucket_fast(words, 3).numpy()
    assert set(rows) == {5, 6, 7}
    np.testing.assert_allclose(found, table[rows], atol=1e-7)


def test_unknown_words_start_as_unk():
    vectors = make(["<UNK>", *WORDS])
    module = hub.WordVectorsModule(vectors, oov_buckets=2)
    got = module(tf.constant(["unseen", "other cat"]))
    want = expected(vectors, ["unseen", "other cat"], unknown=vectors.vector("<UNK>"))
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_lower_case_and_punctuation():
    vectors = make()
    texts = tf.constant(["THE Cat, sat!", "北京。 — the"])
    plain = ["the cat sat", "北京 the"]
    module = hub.WordVectorsModule(vectors, lowercase=True, punctuation=False)
    np.testing.assert_allclose(module(texts), expected(vectors, plain), atol=1e-6)


def test_no_texts_and_no_words():
    module = hub.WordVectorsModule(make(subwords=True))
    assert module(tf.constant([], "string")).shape == (0, D)
    np.testing.assert_array_equal(module(tf.constant(["", " \t\n"])), np.zeros((2, D)))
    assert np.isfinite(module(tf.constant(["</s>", "x"]))).all()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The two vectors that were exported, and what TensorFlow alone saw of them."""
    folder = tmp_path_factory.mktemp("word_vectors")
    made = {"buckets": make(), "subwords": make(subwords=True)}
    for name, vectors in made.items():
        hub.export_word_vectors(folder / name, vectors, oov_buckets=2)
    return made, alone(folder, look, KERAS)


def look(folder):
    texts = tf.constant(["the cat  sat", "", "unseen 北京 cat unseen", "naïve"])
    seen = {}
    for name in ("buckets", "subwords"):
        module = tf.saved_model.load(f"{folder}/{name}")
        seen[f"{name}/text"] = module(texts).numpy()
        seen |= listed(f"{name}/signature", module.signatures["default"](text=texts))
        seen[f"{name}/none"] = module(tf.constant([], "string")).numpy()
        seen |= trained(name, module, texts, lambda y: tf.reduce_sum(y**2))
        seen[f"{name}/again"] = again(folder, name)(texts).numpy()
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("name", ["buckets", "subwords"])
def test_tensorflow_alone_sees_the_same(name, exported):
    """Outputs, and the gradients of `sum y^2`: `2 y / sqrt(n)` for each word of a text."""
    vectors, seen = exported[0][name], exported[1]
    want = expected(vectors, TEXTS)
    for way in ("text", "signature/default", "again"):
        np.testing.assert_allclose(seen[f"{name}/{way}"], want, atol=1e-6, err_msg=way)
    assert seen[f"{name}/none"].shape == (0, D)
    tables = 2 if name == "subwords" else 1
    assert seen[f"{name}/counts"].tolist() == [tables, tables]
    assert seen[f"{name}/penalties"].size == seen[f"{name}/dropout"] == 0
    slopes, ngrams = np.zeros(seen[f"{name}/gradient/True/0"].shape), np.zeros((30, D))
    for text, y in zip(TEXTS, want, strict=True):
        words = text.split()
        for word in words:
            gradient = 2 * y / len(words) ** 0.5
            if word in vectors:
                slopes[vectors.index[word]] += gradient
            elif vectors.subwords is None:
                slopes[len(WORDS) + int(tf.strings.to_hash_bucket_fast(word, 2))] += gradient
            else:
                rows = vectors.subwords.rows([word])[0]
                np.add.at(ngrams, rows, gradient / len(rows))
    np.testing.assert_allclose(seen[f"{name}/gradient/True/0"], slopes, atol=1e-5)
    if name == "subwords":
        np.testing.assert_allclose(seen["subwords/gradient/True/1"], ngrams, atol=1e-5)


def test_what_can_not_be_exported():
    for words, arguments, said in (
        (WORDS, {"combiner": "max"}, "combiner="),
        (WORDS, {"oov_buckets": 0}, "oov_buckets=0"),
        (["a", "b\nc"], {}, "line end"),
    ):
        with pytest.raises(ValueError, match=said):
            hub.WordVectorsModule(make(words), **arguments)
