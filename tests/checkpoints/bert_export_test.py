"""From tfnlp's BERT to published names and back."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.checkpoints.checkpoints import (
    GENERATED,
    assert_same_weights,
    google_arrays,
    huggingface_arrays,
)
from tests.support import golden
from tfnlp.checkpoints import (
    google_tensors,
    huggingface_tensors,
    load_bert,
    save_gpt,
    save_huggingface,
)
from tfnlp.models import bert, bert_pretrainer, gpt, gpt_pretrainer

TINY = dict(
    vocab_size=11, num_layers=2, hidden_size=8, num_heads=2, intermediate_size=24, max_positions=7
)
VOCAB = golden(GENERATED) / "vocab.txt"


def assert_same_arrays(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == np.float32
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_names_are_those_that_were_read():
    converted = load_bert(golden(GENERATED))
    assert_same_arrays(google_tensors(converted.pretrainer), google_arrays())
    assert_same_arrays(huggingface_tensors(converted.pretrainer), huggingface_arrays())
    encoder = {n: a for n, a in huggingface_arrays(prefix="").items() if not n.startswith("cls.")}
    assert_same_arrays(huggingface_tensors(converted.encoder), encoder)


@pytest.mark.parametrize(
    "heads, architecture, activation, pooler",
    [
        (dict(), "BertForPreTraining", "gelu", True),
        (dict(next_sentence=False), "BertForMaskedLM", "gelu_tanh", False),
        (dict(masked_lm=False), "BertForNextSentencePrediction", "relu", True),
        (None, "BertModel", "gelu_tanh", True),
    ],
)
def test_folder_round_trip(tmp_path, heads, architecture, activation, pooler):
    arguments = dict(
        TINY,
        num_segments=3,
        dropout=0.25,
        attention_dropout=0.5,
        activation=activation,
        norm_epsilon=1e-5,
        initializer_range=0.125,
        pooler=pooler,
    )
    model = bert(**arguments)
    if heads is not None:
        model = bert_pretrainer(model, activation=activation, norm_epsilon=1e-5, **heads)
    save_huggingface(model, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == [
        architecture
    ]
    converted = load_bert(tmp_path / "out")
    assert converted.config == arguments
    assert_same_weights(converted.pretrainer or converted.encoder, model)


def test_vocabulary_travels(tmp_path):
    pretrainer = load_bert(golden(GENERATED)).pretrainer
    save_huggingface(pretrainer, tmp_path / "out", VOCAB, lowercase=False)
    assert (tmp_path / "out" / "vocab.txt").read_bytes() == VOCAB.read_bytes()
    converted = load_bert(tmp_path / "out")
    assert converted.lowercase is False  # though the vocabulary looks lower-cased
    assert_same_arrays(load_file(tmp_path / "out" / "model.safetensors"), huggingface_arrays())


def test_bfloat16_weights_are_widened(tmp_path):
    save_huggingface(bert(**TINY, dtype="bfloat16"), tmp_path / "out")
    arrays = load_file(tmp_path / "out" / "model.safetensors")
    assert {a.dtype for a in arrays.values()} == {np.dtype("float32")}


def test_refusals(tmp_path):
    import keras

    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)], name="other")
    with pytest.raises(ValueError, match="model 'other' is not a BERT"):
        google_tensors(other)
    model = bert(**TINY)
    with pytest.raises(ValueError, match="200 tokens"):
        save_huggingface(model, tmp_path / "out", VOCAB, lowercase=True)
    full = load_bert(golden(GENERATED)).encoder
    with pytest.raises(ValueError, match="lowercase=None"):
        save_huggingface(full, tmp_path / "out", VOCAB)
    openai = gpt(vocab_size=9, hidden_size=8, num_layers=1, num_heads=1, activation="tanh")
    with pytest.raises(ValueError, match="activation='tanh' has no name"):
        save_gpt(tmp_path / "out", gpt_pretrainer(openai))
    assert not list(tmp_path.iterdir())
