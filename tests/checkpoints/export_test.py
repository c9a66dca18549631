"""From tfnlp's BERT and GPT to published names and back."""

import json
import os

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.checkpoints import checkpoints as of_bert
from tests.checkpoints import gpt_checkpoints as of_gpt
from tests.checkpoints.checkpoints import GENERATED, assert_same_weights
from tests.checkpoints.faults import one_line
from tests.checkpoints.gpt_checkpoints import GPT1, GPT2
from tests.support import golden
from tfnlp.checkpoints import (
    google_tensors,
    gpt_tasks,
    huggingface_tensors,
    load_bert,
    load_gpt,
    save_gpt,
    save_huggingface,
)
from tfnlp.models import bert, bert_pretrainer, gpt, gpt_pretrainer
from tfnlp.text import gpt_tokenizer, train_bpe

TINY = dict(
    vocab_size=11, num_layers=2, hidden_size=8, num_heads=2, intermediate_size=32, max_positions=7
)
VOCAB = golden(GENERATED) / "vocab.txt"


def json_of(folder, name="config"):
    return json.loads((folder / f"{name}.json").read_text())


def assert_same_arrays(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == np.float32
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_names_of_a_bert_are_those_that_were_read(tmp_path):
    """And its vocabulary travels."""
    converted = load_bert(golden(GENERATED))
    arrays = of_bert.huggingface_arrays()
    assert_same_arrays(google_tensors(converted.pretrainer), of_bert.google_arrays())
    assert_same_arrays(huggingface_tensors(converted.pretrainer), arrays)
    encoder = of_bert.huggingface_arrays(prefix="")
    encoder = {n: a for n, a in encoder.items() if not n.startswith("cls.")}
    assert_same_arrays(huggingface_tensors(converted.encoder), encoder)
    save_huggingface(converted.pretrainer, tmp_path / "out", VOCAB, lowercase=False)
    assert (tmp_path / "out" / "vocab.txt").read_bytes() == VOCAB.read_bytes()
    assert load_bert(tmp_path / "out").lowercase is False  # though it looks lower-cased
    assert_same_arrays(load_file(tmp_path / "out" / "model.safetensors"), arrays)


@pytest.mark.parametrize("name", [GPT1, GPT2])
def test_names_of_a_gpt_are_huggingfaces(tmp_path, name):
    converted = load_gpt(golden(name))
    for model, prefix in ((converted.pretrainer, "transformer."), (converted.encoder, "")):
        save_gpt(tmp_path / "out", model, overwrite=True)
        arrays = load_file(tmp_path / "out" / "model.safetensors")
        assert_same_arrays(arrays, of_gpt.huggingface_arrays(name, prefix))


NUMBERS = dict(dropout=0.25, attention_dropout=0.5, norm_epsilon=1e-3, initializer_range=0.125)


@pytest.mark.parametrize(
    "heads, architecture, activation, pooler",
    [
        (dict(), "BertForPreTraining", "gelu", True),
        (dict(next_sentence=False), "BertForMaskedLM", "gelu_tanh", False),
        (dict(masked_lm=False), "BertForNextSentencePrediction", "relu", True),
        (None, "BertModel", "gelu_tanh", True),
    ],
)
def test_round_trip_of_a_bert(tmp_path, heads, architecture, activation, pooler):
    arguments = dict(TINY, **NUMBERS, num_segments=3, activation=activation, pooler=pooler)
    model = bert(**arguments)
    if heads is not None:
        model = bert_pretrainer(model, activation=activation, norm_epsilon=1e-3, **heads)
    save_huggingface(model, tmp_path / "out")
    assert json_of(tmp_path / "out")["architectures"] == [architecture]
    converted = load_bert(tmp_path / "out")
    assert converted.config == arguments
    assert_same_weights(converted.pretrainer or converted.encoder, model)


@pytest.mark.parametrize(
    "changes, architecture, activation",
    [
        (dict(), "OpenAIGPTLMHeadModel", "gelu"),
        (dict(activation="relu"), "OpenAIGPTModel", "relu"),
        (dict(norm_first=True, intermediate_size=24), "GPT2LMHeadModel", "gelu_new"),
    ],
)
def test_round_trip_of_a_gpt(tmp_path, changes, architecture, activation):
    arguments = {**TINY, **NUMBERS, "activation": "gelu_tanh", "norm_first": False, **changes}
    encoder = gpt(**arguments)
    save_gpt(tmp_path / "out", gpt_pretrainer(encoder) if "LM" in architecture else encoder)
    stated = json_of(tmp_path / "out")
    assert stated["architectures"] == [architecture]
    assert stated["model_type"] == ("gpt2" if "GPT2" in architecture else "openai-gpt")
    assert stated["activation_function" if "GPT2" in architecture else "afn"] == activation
    assert stated["embd_pdrop"] == stated["resid_pdrop"] == 0.25
    converted = load_gpt(tmp_path / "out")
    assert converted.config == arguments
    assert_same_weights(converted.encoder, encoder)


def test_bfloat16_weights_are_widened(tmp_path):
    save_huggingface(bert(**TINY, dtype="bfloat16"), tmp_path / "out")
    arrays = load_file(tmp_path / "out" / "model.safetensors")
    assert {a.dtype for a in arrays.values()} == {np.dtype("float32")}


@pytest.mark.parametrize("kind", ["gpt", "gpt2"])
@pytest.mark.slow
def test_the_tokenizer_of_a_gpt_travels(tmp_path, kind):
    texts = ["the cat sat on the mat", "a cat and a dog sat there", "the dog ate the cat's mat"] * 3
    tokenizer = gpt_tokenizer(train_bpe(texts, 300 if kind == "gpt2" else 60, kind))
    sizes = dict(TINY, vocab_size=tokenizer.vocab_size + 3, norm_first=kind == "gpt2")
    save_gpt(tmp_path / "out", gpt_pretrainer(gpt(**sizes)), tokenizer)
    assert sorted(os.listdir(tmp_path / "out")) == [
        "config.json", "merges.txt", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
        "vocab.json",
    ]  # fmt: skip
    again = load_gpt(tmp_path / "out").tokenizer
    assert again.kind == tokenizer.kind == kind
    assert again.vocabulary == tokenizer.vocabulary and again.merges == tokenizer.merges
    config, end = json_of(tmp_path / "out"), tokenizer.vocabulary.index("<|endoftext|>")
    assert config["bos_token_id"] == config["eos_token_id"] == end
    expected = {"gpt": "OpenAIGPTTokenizer", "gpt2": "GPT2Tokenizer"}[kind]
    stated = {"tokenizer_class": expected, "model_max_length": 7}
    assert json_of(tmp_path / "out", "tokenizer_config") == stated


def test_models_without_a_place_in_the_format(tmp_path):
    def refuses(pattern, call, *arguments, **named):
        one_line(pattern, ValueError, call, *arguments, **named)

    target, encoder = tmp_path / "out", gpt(**TINY)
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)], name="other")
    head = keras.layers.Dense(3)(encoder.output["sequence_output"])
    classifier = keras.Model(encoder.input, {"logits": head}, name="classifier")
    refuses("model 'other' is not a BERT", google_tensors, other)
    for model in (other, bert(**TINY), classifier):
        refuses(f"model '{model.name}' is not a GPT", save_gpt, target, model)
    for changes in (dict(activation="gelu"), dict(activation="tanh"), dict(intermediate_size=24)):
        ((name, value),) = changes.items()
        model = gpt_pretrainer(gpt(**{**TINY, **changes}))
        refuses(f"{name}={value!r} has no", save_gpt, target, model)
    refuses("200 tokens", save_huggingface, bert(**TINY), target, VOCAB, lowercase=True)
    full = load_bert(golden(GENERATED)).encoder
    refuses("lowercase=None", save_huggingface, full, target, VOCAB)
    assert not os.listdir(tmp_path)


def test_what_may_be_replaced(tmp_path):
    def refuses(pattern, *arguments, **named):
        one_line(pattern, FileExistsError, save_gpt, *arguments, **named)

    encoder = gpt(**TINY)
    save_gpt(tmp_path, encoder)
    refuses(r"holds \['config.json', 'model.s.*`overwrite`", tmp_path, encoder)
    save_gpt(tmp_path, gpt(**TINY, norm_first=True), overwrite=True)
    assert json_of(tmp_path)["model_type"] == "gpt2"
    (tmp_path / "notes").write_text("mine")
    refuses(r"exists and holds \['notes'\]", tmp_path, encoder, overwrite=True)
    refuses("exists; choose", tmp_path / "notes", encoder, overwrite=True)
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
