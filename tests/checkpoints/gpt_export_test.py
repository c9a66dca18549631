"""From tfnlp's GPT and GPT-2 to Hugging Face's folder and back."""

import json
import os

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.checkpoints.checkpoints import assert_same_weights
from tests.checkpoints.faults import one_line
from tests.checkpoints.gpt_checkpoints import GPT1, GPT2, huggingface_arrays
from tests.support import golden
from tfnlp.checkpoints import gpt_tasks, load_gpt, save_gpt
from tfnlp.models import bert, gpt, gpt_pretrainer
from tfnlp.text import gpt_tokenizer, train_bpe

TINY = dict(
    vocab_size=11, num_layers=2, hidden_size=8, num_heads=2, intermediate_size=32, max_positions=7
)


def refuses(pattern, error, *arguments, **keywords):
    one_line(pattern, error, save_gpt, *arguments, **keywords)


@pytest.mark.parametrize("name", [GPT1, GPT2])
def test_names_are_huggingfaces(tmp_path, name):
    converted = load_gpt(golden(name))
    for model, prefix in ((converted.pretrainer, "transformer."), (converted.encoder, "")):
        save_gpt(tmp_path / "out", model, overwrite=True)
        arrays = load_file(tmp_path / "out" / "model.safetensors")
        expected = huggingface_arrays(name, prefix)
        assert arrays.keys() == expected.keys()
        for key, array in arrays.items():
            assert array.dtype == np.float32
            np.testing.assert_array_equal(array, expected[key], err_msg=key)


@pytest.mark.parametrize(
    "changes, model_type, activation, head",
    [
        (dict(), "openai-gpt", "gelu", True),
        (dict(activation="relu"), "openai-gpt", "relu", False),
        (dict(norm_first=True, intermediate_size=24), "gpt2", "gelu_new", True),
    ],
)
def test_folder_round_trip(tmp_path, changes, model_type, activation, head):
    arguments = dict(
        TINY, dropout=0.25, attention_dropout=0.5, activation="gelu_tanh", norm_epsilon=1e-3,
        initializer_range=0.125, norm_first=False,
    )  # fmt: skip
    arguments.update(changes)
    encoder = gpt(**arguments)
    save_gpt(tmp_path / "out", gpt_pretrainer(encoder) if head else encoder)
    stated = json.loads((tmp_path / "out" / "config.json").read_text())
    assert stated["model_type"] == model_type
    assert stated["afn" if model_type == "openai-gpt" else "activation_function"] == activation
    kind = "GPT2" if model_type == "gpt2" else "OpenAIGPT"
    assert stated["architectures"] == [kind + ("LMHeadModel" if head else "Model")]
    assert stated["embd_pdrop"] == stated["resid_pdrop"] == 0.25
    converted = load_gpt(tmp_path / "out")
    assert converted.config == arguments
    assert_same_weights(converted.encoder, encoder)


@pytest.mark.parametrize("kind", ["gpt", "gpt2"])
@pytest.mark.slow
def test_tokenizer_travels(tmp_path, kind):
    texts = ["the cat sat on the mat", "a cat and a dog sat there", "the dog ate the cat's mat"] * 3
    tokenizer = gpt_tokenizer(train_bpe(texts, 300 if kind == "gpt2" else 60, kind))
    assert tokenizer.kind == kind
    sizes = dict(TINY, vocab_size=tokenizer.vocab_size + 3, norm_first=kind == "gpt2")
    model = gpt_pretrainer(gpt(**sizes))
    save_gpt(tmp_path / "out", model, tokenizer)
    assert sorted(os.listdir(tmp_path / "out")) == [
        "config.json", "merges.txt", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
            "vocab.json",
    ]  # fmt: skip
    converted = load_gpt(tmp_path / "out")
    assert_same_weights(converted.pretrainer, model)
    again = converted.tokenizer
    assert again.kind == kind
    assert again.vocabulary == tokenizer.vocabulary and again.merges == tokenizer.merges
    settings = [
        json.loads((tmp_path / "out" / f"{name}.json").read_text())
        for name in ("config", "tokenizer_config")
    ]
    end = tokenizer.vocabulary.index("<|endoftext|>")
    assert settings[0]["bos_token_id"] == settings[0]["eos_token_id"] == end
    expected = {"gpt": "OpenAIGPTTokenizer", "gpt2": "GPT2Tokenizer"}[kind]
    assert settings[1] == {"tokenizer_class": expected, "model_max_length": 7}
    message = f"tokenizer has {tokenizer.vocab_size} tokens"
    refuses(message, ValueError, tmp_path / "small", gpt(**TINY), tokenizer)


def test_models_without_a_place_in_the_format(tmp_path):
    target = tmp_path / "out"
    sizes = dict(TINY, num_segments=2)
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)], name="other")
    encoder = gpt(**TINY)
    head = keras.layers.Dense(3)(encoder.output["sequence_output"])
    classifier = keras.Model(encoder.input, {"logits": head}, name="classifier")
    for model in (other, bert(**sizes), classifier):
        refuses(f"model '{model.name}' is not a GPT", ValueError, target, model)
    model = gpt(**TINY, activation="gelu")
    refuses("activation='gelu'", ValueError, target, model)
    model = gpt(**{**TINY, "intermediate_size": 24})
    refuses("intermediate_size=24", ValueError, target, model)
    assert not os.listdir(tmp_path)


def test_what_may_be_replaced(tmp_path):
    encoder = gpt(**TINY)
    save_gpt(tmp_path, encoder)
    refuses(r"holds \['config.json', 'model.s.*`overwrite`", FileExistsError, tmp_path, encoder)
    save_gpt(tmp_path, gpt(**TINY, norm_first=True), overwrite=True)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "gpt2"
    (tmp_path / "notes").write_text("mine")
    refuses(r"exists and holds \['notes'\]", FileExistsError, tmp_path, encoder, overwrite=True)
    refuses("exists; choose", FileExistsError, tmp_path / "notes", encoder, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["config.json", "model.safetensors", "notes"]


def test_a_bias_of_classes_moves_into_the_vectors():
    """Also one that no vectors give, if others give the same probabilities."""
    generator = np.random.default_rng(0)
    kernel, vectors = generator.normal(size=(3, 8)), generator.normal(size=(5, 8))
    bias = np.array([0.5, -1.0, 2.0])
    for output in ("class", "labels", "number"):
        moved = vectors + gpt_tasks._moved(kernel, bias, output)
        np.testing.assert_allclose(moved @ kernel.T, vectors @ kernel.T + bias, atol=1e-5)
    kernel -= kernel.mean(0)  # so logits have the mean 0, which the bias changes
    moved = (vectors + gpt_tasks._moved(kernel, bias, "class")) @ kernel.T
    np.testing.assert_allclose(softmax(moved), softmax(vectors @ kernel.T + bias), atol=1e-5)
    for output in ("labels", "number"):
        with pytest.raises(ValueError, match="depend on each other"):
            gpt_tasks._moved(kernel, bias, output)


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)
