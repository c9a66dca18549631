"""Tables of frozen layers: against the backbone run on each text alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.hub import bert_toy, elmo_toy
from tfnlp.hub import ElmoModule, sentence_layers
from tfnlp.hub.modules import frozen_features as features
from tfnlp.hub.modules.frozen_features import (
    ElmoFeatures,
    EncoderFeatures,
    WordRows,
    sequence_table,
)
from tfnlp.tasks.sequences import EncodedExamples
from tfnlp.text import character_ids

pytestmark = pytest.mark.slow

P, H = elmo_toy.P, bert_toy.H
HALF = dict(rtol=2e-3, atol=2e-3)  # half precision
SENTENCES = [["the", "cat", "naïve"], ["北京"], [], ["a", "the", "cat", "."]]


@pytest.fixture(scope="module")
def elmo():
    keras.utils.set_random_seed(0)
    encoder = elmo_toy.tiny()
    return encoder, ElmoModule(encoder)


def bert():
    return bert_toy.encoder(dropout=0.1)


def elmo_alone(encoder, words):
    outputs = encoder({"character_ids": character_ids([words])}, training=False)
    layers = [np.concatenate([outputs["word_emb"][0]] * 2, -1)]
    return np.stack([*layers, outputs["lstm_outputs1"][0], outputs["lstm_outputs2"][0]], 1)


def bytes_of(sentences):
    rows = [[word.encode() for word in s] for s in sentences]
    return tf.ragged.constant(rows, "string", ragged_rank=1)


def test_elmo_tables_are_each_sentence_alone(elmo):
    (encoder, module), layers = elmo, [2, 0]
    frozen = ElmoFeatures(module, layers, 2 * P, encoder)
    want = np.concatenate([elmo_alone(encoder, s)[:, layers] for s in SENTENCES if s])

    for tokens in (1, 4096):  # of a batch
        found = list(sentence_layers(module, SENTENCES, tokens))
        assert [x.shape for x in found] == [(3, len(s), 2 * P) for s in SENTENCES]
        found = np.concatenate([x[layers].transpose(1, 0, 2) for x in found])
        np.testing.assert_allclose(found, want, atol=2e-6)
    graph = frozen.table(bytes_of(SENTENCES)).numpy()
    assert graph.dtype == np.float32 and not graph[0].any()
    np.testing.assert_allclose(graph[1:], want, atol=2e-6)

    rows = WordRows()
    got = rows.add(bytes_of(SENTENCES))
    assert got.dtype == np.int32 and got.tolist() == list(range(9))
    table = rows.table(frozen)
    assert table.dtype == np.float32 and table.shape == (9, len(layers), 2 * P)
    assert not table[0].any() and table[1:].any((1, 2)).all()
    np.testing.assert_allclose(table[1:], want, **HALF)


def test_a_text_that_comes_again_has_its_rows():
    rows = WordRows()
    assert rows.add(bytes_of([["a", "b"], ["c"], ["a", "b"]])).tolist() == [0, 1, 2, 3, 1, 2]
    assert rows.add(bytes_of([["c"], [], ["a"], ["a", "b"], []])).tolist() == [0, 3, 4, 1, 2]
    assert rows.add(bytes_of([["a b"]])).tolist() == [0, 5]  # another text than "a", "b"


def encoded(rng, sizes, choices=None):
    """Random ids; with choices `[C, n]`, whose sequences are shorter than n in places."""
    inputs = {"input_word_ids": [], "input_mask": [], "input_type_ids": []}
    for size in sizes:
        shape = (size,) if choices is None else (choices, size)
        mask = np.ones(shape, np.int32)
        if choices is not None:
            mask[0, max(1, size - 2) :] = 0
        inputs["input_mask"].append(mask)
        inputs["input_word_ids"].append(
            mask * rng.integers(1, len(bert_toy.WORDS), shape).astype(np.int32)
        )
        inputs["input_type_ids"].append(mask * rng.integers(0, 2, shape).astype(np.int32))
    return EncodedExamples(inputs, np.zeros(len(sizes), np.int32), np.arange(len(sizes)))


def check_sequences(encoder, found, table, rows, layers):
    assert not np.asarray(table[0]).any()
    seen = []
    for number, row in enumerate(rows):
        columns = {name: np.atleast_2d(x[number]) for name, x in found.inputs.items()}
        assert row.dtype == np.int32 and row.shape == found.inputs["input_mask"][number].shape
        for c, places in enumerate(np.atleast_2d(row)):
            size = columns["input_mask"][c].sum()
            alone = {name: columns[name][c : c + 1, :size] for name in encoder.input}
            outputs = encoder(alone, training=False)
            every = [outputs["embedding_output"], *outputs["encoder_outputs"]]
            want = np.stack([every[i][0] for i in layers], 1)
            np.testing.assert_allclose(table[places[:size]], want, **HALF)
            assert not places[size:].any()
            seen += places[:size].tolist()
    assert seen == list(range(1, len(table)))


@pytest.mark.parametrize("choices, tokens", [(None, 1), (3, 20)])
def test_sequence_tables_are_each_sequence_alone(choices, tokens, monkeypatch):
    monkeypatch.setattr(features, "_BATCH_TOKENS", tokens)
    encoder, layers = bert(), [-2, -1, 0]
    found = encoded(np.random.default_rng(1), [3, 7, 1, 5, 5], choices)
    frozen = EncoderFeatures(encoder, layers)
    table, rows = sequence_table(found, frozen)
    check_sequences(encoder, found, table, rows, layers)


def test_layers_in_a_batch_are_zeros_at_padding():
    frozen = EncoderFeatures(bert(), [0, 2])
    found = encoded(np.random.default_rng(3), [5, 2])
    padded = {
        name: tf.constant([np.pad(x, (0, 6 - len(x))) for x in column])
        for name, column in found.inputs.items()
    }
    layers = frozen.layers(padded).numpy()
    assert layers.shape == (2, 6, 2, H) and layers.dtype == np.float32
    np.testing.assert_array_equal(layers.any((2, 3)), padded["input_mask"].numpy() > 0)
    table, rows = sequence_table(found, frozen)
    for n, row in enumerate(rows):
        np.testing.assert_allclose(layers[n, : len(row)], table[row], **HALF)


def test_tables_are_kept_by_weights_layers_and_texts(tmp_path, monkeypatch):
    cache, encoder = str(tmp_path / "cache"), bert()
    runs = []
    real = features._of_sequences
    monkeypatch.setattr(
        features, "_of_sequences", lambda *a: (runs.append(1), (yield from real(*a)))
    )

    def table_of(encoder, layers=(1,), seed=4, sizes=(3, 2)):
        found, kept = encoded(np.random.default_rng(seed), sizes), len(runs)
        table, rows = sequence_table(found, EncoderFeatures(encoder, list(layers)), cache)
        if len(runs) == kept:  # what was read again
            check_sequences(encoder, found, table, rows, layers)
        assert isinstance(table, np.memmap)
        return len(runs), len(list((tmp_path / "cache").iterdir()))

    assert table_of(encoder) == (1, 1)
    assert table_of(encoder) == (1, 1)  # again
    assert table_of(bert()) == (1, 1)  # another model of the same weights
    assert table_of(encoder, layers=(2,)) == (2, 2)
    assert table_of(encoder, seed=5) == (3, 3)
    assert table_of(encoder, sizes=(2, 3)) == (4, 4)
    encoder.trainable_variables[-3].assign_add(encoder.trainable_variables[-3] * 0 + 0.01)
    assert table_of(encoder) == (5, 5)


def test_elmo_tables_are_kept_too(elmo, tmp_path):
    encoder, module = elmo
    frozen = ElmoFeatures(module, [0, 1, 2], 2 * P, encoder)
    rows = WordRows()
    rows.add(bytes_of(SENTENCES))
    first = rows.table(frozen, str(tmp_path))
    # On disk a value is a float16, which keeps eleven bits.
    np.testing.assert_array_equal(first, rows.table(frozen).astype("float16"))
    np.testing.assert_array_equal(rows.table(frozen, str(tmp_path)), first)
    assert len(list(tmp_path.iterdir())) == 1
    # The same words in other sentences are other vectors.
    other = WordRows()
    other.add(bytes_of([[word for s in SENTENCES for word in s]]))
    assert np.abs(other.table(frozen, str(tmp_path)) - first).max() > 0.01
    assert len(list(tmp_path.iterdir())) == 2
