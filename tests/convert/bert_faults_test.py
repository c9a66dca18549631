"""What does not fit is refused in one line, before a model is built."""

import json

import numpy as np
import pytest

import tfnlp.convert.encoders.loading
from tests.convert.checkpoints import (
    GENERATED,
    config_json,
    google_arrays,
    huggingface_arrays,
    write,
)
from tests.convert.faults import one_line
from tests.support import golden
from tfnlp.convert import load_bert


@pytest.fixture
def no_model(monkeypatch):
    """Fails the test if a weight is assigned."""
    monkeypatch.setattr(
        tfnlp.convert.encoders.loading, "assign", lambda *_: pytest.fail("a model was filled")
    )


def fails(path, pattern, error=ValueError, **arguments):
    return one_line(pattern, error, load_bert, path, **arguments)


def test_missing_surplus_and_misshapen_are_listed_together(tmp_path, no_model):
    arrays = huggingface_arrays()
    del arrays["bert.pooler.dense.bias"]
    arrays["bert.extra"] = np.zeros((2, 3), np.float32)
    name = "bert.encoder.layer.1.intermediate.dense.weight"
    arrays[name] = np.ascontiguousarray(arrays[name].T)
    arrays["bert.embeddings.LayerNorm.bias"] = np.zeros(32, np.int64)
    message = fails(write(tmp_path, arrays), "model.safetensors does not fit .* in 4 tensors")
    assert "missing 'pooler.dense.bias', expected [32]" in message
    assert "surplus 'bert.extra', found [2, 3]" in message
    assert f"misshapen '{name}', found [32, 64], expected [64, 32]" in message
    assert "'bert.embeddings.LayerNorm.bias' has dtype" in message


@pytest.mark.parametrize("name", [n for n in google_arrays() if "layer_" not in n])
def test_any_missing_tensor_is_named(tmp_path, no_model, name):
    arrays = google_arrays()
    del arrays[name]
    fails(write(tmp_path, arrays, kind="npz"), f"in 1 tensors: missing '{name}', expected")


def test_a_file_with_other_layers(tmp_path, no_model):
    folder = write(tmp_path, google_arrays(), config_json(num_hidden_layers=4), kind="npz")
    fails(folder, "config.json asks for num_hidden_layers=4, but .*weights.npz holds 3 layers")


def test_next_sentence_head_without_pooler(tmp_path, no_model):
    arrays = {n: a for n, a in google_arrays().items() if "pooler" not in n}
    fails(write(tmp_path, arrays, kind="npz"), "in 2 tensors: missing 'bert/pooler/dense/kernel'")


def test_tensor_held_twice(tmp_path, no_model):
    arrays = huggingface_arrays()
    arrays["pooler.dense.bias"] = arrays["bert.pooler.dense.bias"] + 1
    fails(write(tmp_path, arrays), "holds one tensor twice, as '.*' and as '.*pooler.dense.bias'")


def test_not_a_bert(tmp_path, no_model):
    arrays = {"transformer.h.0.ln_1.weight": np.ones(3, np.float32)}
    fails(write(tmp_path, arrays), r"holds no BERT: .*found \['transformer.h.0.ln_1.weight'\]")


@pytest.mark.parametrize(
    "change, pattern",
    [
        (dict(vocab_size=2**31 - 1), r"word_embeddings', found \[200, 32\], expected \[2147483647"),
        (dict(hidden_size=2**30), r"word_embeddings', .*expected \[200, 1073741824\]"),
        (dict(num_hidden_layers=2**31 - 1), "num_hidden_layers=2147483647"),
        (dict(intermediate_size=2**31 - 1), r"intermediate/dense/kernel', found \[32, 64\]"),
        (dict(type_vocab_size=10**9), "token_type_embeddings'"),
        (dict(vocab_size=10**30), "vocab_size=1000.*expected a whole number"),
        (dict(vocab_size=0), "vocab_size=0"),
        (dict(hidden_size=32.0), r"hidden_size=32\.0"),
        (dict(num_attention_heads=True), "num_attention_heads=True"),
        (dict(num_attention_heads=5), "not a multiple of num_attention_heads=5"),
        (dict(hidden_dropout_prob=1.0), "hidden_dropout_prob=1.0"),
        (dict(layer_norm_eps=float("nan")), "layer_norm_eps=nan"),
        (dict(initializer_range=10**400), "initializer_range=1000"),
        (dict(hidden_act="swish"), "hidden_act='swish'.*gelu_new.*activation="),
        (dict(model_type="roberta"), "model_type='roberta'"),
        (dict(position_embedding_type="relative_key"), "position_embedding_type='relative_key'"),
        (dict(is_decoder=True), "is_decoder=True"),
    ],
)
def test_absurd_configurations(tmp_path, no_model, change, pattern):
    folder = write(tmp_path, google_arrays(), config_json(**change), kind="npz")
    fails(folder, pattern)


def test_configuration_without_a_size(tmp_path, no_model):
    config = config_json()
    del config["type_vocab_size"]
    fails(write(tmp_path, google_arrays(), config, kind="npz"), "config.json lacks type_vocab_size")


@pytest.mark.parametrize(
    "stated, meant",
    [
        ("gelu", "gelu"),
        ("gelu_new", "gelu_tanh"),
        ("gelu_pytorch_tanh", "gelu_tanh"),
        ("gelu_tanh", "gelu_tanh"),
        ("relu", "relu"),
    ],
)
def test_activations(tmp_path, stated, meant):
    folder = write(tmp_path, google_arrays(), config_json(hidden_act=stated), kind="npz")
    converted = load_bert(folder)
    assert converted.config["activation"] == meant
    assert converted.encoder.get_layer("layer_0").activation == meant
    assert converted.pretrainer.get_layer("masked_lm_head").activation == meant


def test_layer_norm_epsilon_is_read(tmp_path):
    folder = write(tmp_path, google_arrays(), config_json(layer_norm_eps=0.25), kind="npz")
    converted = load_bert(folder)
    assert converted.encoder.get_layer("embedding_norm").epsilon == 0.25
    assert converted.encoder.get_layer("layer_0").norm_epsilon == 0.25
    assert converted.pretrainer.get_layer("masked_lm_head").norm_epsilon == 0.25


def test_given_activation_stands_in_for_an_unknown_one(tmp_path):
    folder = write(tmp_path, google_arrays(), config_json(hidden_act="swish"), kind="npz")
    assert load_bert(folder, activation="relu").config["activation"] == "relu"


def test_nothing_there(tmp_path, no_model):
    fails(tmp_path / "absent", "no folder, file or TensorFlow checkpoint", FileNotFoundError)
    fails(tmp_path, "holds no weights; looked for model.safetensors, ", FileNotFoundError)
    (tmp_path / "notes.txt").write_text("hello")
    fails(tmp_path / "notes.txt", "no configuration", FileNotFoundError)
    (tmp_path / "config.json").write_text(json.dumps(config_json()))
    fails(tmp_path / "notes.txt", "is not a weight file", FileNotFoundError)
    fails(golden(GENERATED), "config_file x.json does not", FileNotFoundError, config_file="x.json")
    fails(golden(GENERATED), "vocabulary x.txt does not exist", FileNotFoundError, vocab="x.txt")


def test_vocabulary_of_another_model(tmp_path, no_model):
    folder = write(tmp_path, google_arrays(), kind="npz")
    (folder / "vocab.txt").write_text("\n".join(str(i) for i in range(201)))
    fails(folder, "vocab.txt has 201 tokens, but the model's vocab_size is 200")
    (folder / "vocab.txt").write_bytes(b"ab\n\xff\n")
    fails(folder, "vocab.txt is not UTF-8")
