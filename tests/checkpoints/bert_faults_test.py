"""What does not fit is refused in one line, before a model is built."""

import json

import numpy as np
import pytest

import tfnlp.checkpoints.encoder_files
from tests.checkpoints.checkpoints import (
    GENERATED,
    config_json,
    google_arrays,
    huggingface_arrays,
    write,
)
from tests.checkpoints.faults import no_model_of, one_line
from tests.support import golden
from tfnlp.checkpoints import load_bert

no_model = no_model_of(tfnlp.checkpoints.encoder_files)


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


def test_a_file_with_other_layers(tmp_path, no_model):
    folder = write(tmp_path, google_arrays(), config_json(num_hidden_layers=4), kind="npz")
    fails(folder, "config.json asks for num_hidden_layers=4, but .*weights.npz holds 3 layers")


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
        (dict(num_hidden_layers=2**31 - 1), "num_hidden_layers=2147483647"),
        (dict(num_attention_heads=5), "not a multiple of num_attention_heads=5"),
        (dict(hidden_dropout_prob=1.0), "hidden_dropout_prob=1.0"),
        (dict(hidden_act="prelu"), "hidden_act='prelu'"),
        (dict(position_embedding_type="relative_key"), "position_embedding_type='relative_key'"),
    ],
)
def test_absurd_configurations(tmp_path, no_model, change, pattern):
    folder = write(tmp_path, google_arrays(), config_json(**change), kind="npz")
    fails(folder, pattern)


def test_activation_and_epsilon_are_read(tmp_path):
    config = config_json(hidden_act="gelu_new", layer_norm_eps=0.25)
    converted = load_bert(write(tmp_path, google_arrays(), config, kind="npz"))
    assert converted.config["activation"] == "gelu_tanh"
    block = converted.encoder.get_layer("layer_0")
    head = converted.pretrainer.get_layer("masked_lm_head")
    assert block.activation == head.activation == "gelu_tanh"
    assert converted.encoder.get_layer("embedding_norm").epsilon == 0.25
    assert block.norm_epsilon == head.norm_epsilon == 0.25


def test_nothing_there(tmp_path, no_model):
    fails(tmp_path / "absent", "no folder, file or TensorFlow checkpoint", FileNotFoundError)
    fails(tmp_path, "holds no weights; looked for model.safetensors, ", FileNotFoundError)
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "config.json").write_text(json.dumps(config_json()))
    fails(tmp_path / "notes.txt", "is not a weight file", FileNotFoundError)
    fails(golden(GENERATED), "config_file x.json does not", FileNotFoundError, config_file="x.json")
    fails(golden(GENERATED), "vocabulary x.txt does not exist", FileNotFoundError, vocab="x.txt")


def test_vocabulary_of_another_model(tmp_path, no_model):
    folder = write(tmp_path, google_arrays(), kind="npz")
    (folder / "vocab.txt").write_text("\n".join(str(i) for i in range(201)))
    fails(folder, "vocab.txt has 201 tokens, but the model's vocab_size is 200")
    (folder / "vocab.txt").write_bytes(b"ab\n\xff\n")
    fails(folder, "vocab.txt is not valid UTF-8")
