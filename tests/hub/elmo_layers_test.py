"""All layers of many sentences: against each sentence alone, and against bilm-tf's recordings."""

import json

import h5py
import numpy as np
import pytest

from tests.support import golden, traced
from tfnlp.convert import load_elmo
from tfnlp.hub import ElmoModule, running_layers, sentence_layers
from tfnlp.text import character_ids


@pytest.fixture(scope="module")
def encoder():
    return load_elmo(golden("elmo_bilm_tf")).encoder


@pytest.fixture(scope="module")
def module(encoder):
    return ElmoModule(encoder)


@pytest.fixture(scope="module")
def one(encoder):
    """The encoder for one sentence at a time."""
    return traced(encoder)


def texts():
    path = golden("elmo_bilm_tf") / "lm_embeddings_sentences.json"
    return [[s.split() for s in text] for text in json.loads(path.read_text())]


@pytest.mark.slow
def test_running_layers_are_what_bilm_tf_recorded(encoder):
    for number, text in enumerate(texts()):
        with h5py.File(golden("elmo_bilm_tf") / f"lm_embeddings_{number}.hdf5") as recorded:
            for index, layers in enumerate(running_layers(encoder, text)):
                both = np.concatenate(list(recorded[str(index)]), -1)  # forward | backward
                np.testing.assert_allclose(layers[2], both, rtol=0, atol=2e-6)


@pytest.mark.parametrize("tokens", [1, 100])
def test_sentences_in_batches_equal_each_alone(module, one, tokens):
    sentences = [*texts()[0], [], ["a"], *texts()[1]]
    together = list(sentence_layers(module, sentences, tokens))
    assert [x.shape for x in together] == [(3, len(s), 32) for s in sentences]
    for words, layers in zip(sentences, together, strict=True):
        if words:
            alone = one(character_ids([words]))
            twice = np.concatenate([alone["word_emb"][0]] * 2, -1)
            np.testing.assert_allclose(layers[0], twice, atol=1e-6)
            np.testing.assert_allclose(layers[1], alone["lstm_outputs1"][0], atol=1e-6)
            np.testing.assert_allclose(layers[2], alone["lstm_outputs2"][0], atol=1e-6)
