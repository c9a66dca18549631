"""GPT checkpoints of every kind give the numbers that their own code gives."""

import json

import numpy as np
import pytest

from tests.checkpoints.checkpoints import assert_same_weights
from tests.checkpoints.gpt_checkpoints import (
    GPT1,
    GPT2,
    config_json,
    copied,
    gpt2_in_numpy,
    huggingface_arrays,
    inputs,
    openai_arrays,
    vector,
    write,
    write_pieces,
)
from tests.support import golden
from tfnlp.checkpoints import gpt_openai, load_gpt
from tfnlp.checkpoints.gpt import KINDS
from tfnlp.checkpoints.mapping import stored_shapes
from tfnlp.checkpoints.tokenizers.byte_pairs import GPT_BYTE_PAIRS
from tfnlp.models import gpt
from tfnlp.models.gpt import GPT
from tfnlp.models.shapes import weight_shapes

TABLES = {GPT1: "transformer.tokens_embed.weight", GPT2: "transformer.wte.weight"}


@pytest.fixture(scope="module")
def originals():
    return {name: load_gpt(golden(name)) for name in (GPT1, GPT2)}


@pytest.mark.parametrize("name", [GPT1, GPT2])
def test_checkpoint_reproduces_goldens(originals, name):
    expected = np.load(golden(f"{name}_expected.npz"))
    outputs = originals[name].pretrainer(inputs(expected["input_ids"]))
    hidden = [outputs["embedding_output"], *outputs["encoder_outputs"]]
    assert f"hidden_{len(hidden)}" not in expected
    pairs = [(h, f"hidden_{i}") for i, h in enumerate(hidden)]
    pairs += [(outputs["sequence_output"], "hidden_3"), (outputs["lm_logits"], "logits")]
    for output, key in pairs:
        np.testing.assert_allclose(output, expected[key], rtol=0, atol=1e-5, err_msg=key)


def test_gpt2_with_weights_that_tell(tmp_path):
    """The fixture's norms are all alike, and its weights so small that any GELU would do."""
    copied(GPT2, tmp_path)
    generator = np.random.default_rng(0)
    arrays = {n: generator.normal(0, 0.5, a.shape) for n, a in openai_arrays(GPT2).items()}
    stored = {f"model/{n}": a.astype(np.float32) for n, a in arrays.items()}
    np.savez(tmp_path / "weights.npz", **stored)
    ids = generator.integers(0, 356, 20)
    logits = load_gpt(tmp_path / "weights.npz").pretrainer(inputs([ids]))["lm_logits"]
    np.testing.assert_allclose(logits[0], gpt2_in_numpy(arrays, ids, 5), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "name, prefix, kind", [(GPT1, "", "npz"), (GPT2, "transformer.", "safetensors")]
)
def test_huggingface_names_give_the_weights_of_openais(tmp_path, originals, name, prefix, kind):
    folder = write(tmp_path, name, huggingface_arrays(name, prefix), kind=kind)
    converted = load_gpt(folder)
    assert_same_weights(converted.pretrainer, originals[name].pretrainer)
    assert converted.config == originals[name].config
    assert converted.vocabulary is None


@pytest.mark.parametrize("name", [GPT1, GPT2])
def test_stored_copies_and_buffers_are_accepted(tmp_path, originals, name):
    arrays = huggingface_arrays(name)
    for layer in range(3):
        arrays[f"transformer.h.{layer}.attn.bias"] = np.ones((1, 1, 20, 20), np.uint8)
        arrays[f"transformer.h.{layer}.attn.masked_bias"] = np.array(-1e4, np.float32)
    arrays["transformer.position_ids"] = np.arange(20)
    arrays["lm_head.weight"] = arrays[TABLES[name]] + 0
    for folder in ("both", "head"):
        converted = load_gpt(write(tmp_path / folder, name, arrays))
        assert_same_weights(converted.pretrainer, originals[name].pretrainer)
        arrays.pop(TABLES[name], None)  # then as the head alone


def test_pieces_may_be_cut_anywhere(tmp_path, originals):
    """More than ten of them too: 10 comes after 9, not after 1."""
    cuts = [5, 5, 700, *range(2000, 29_000, 1800)]
    folder = write_pieces(tmp_path, np.split(vector(), cuts))
    assert_same_weights(load_gpt(folder).encoder, originals[GPT1].encoder)


def test_published_shapes_are_the_published_model(tmp_path):
    """The list of shapes that OpenAI gave, over ten pieces with nothing in them."""
    shapes = json.loads(golden("gpt1_published_shapes.json").read_text())
    size = sum(int(np.prod(shape)) for shape in shapes)
    assert size == 116_534_784
    (tmp_path / "params_shapes.json").write_text(json.dumps(shapes))
    for number, part in enumerate(np.array_split(np.empty(size, np.bool_), 10)):
        path = tmp_path / f"params_{number}.npy"
        np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=part.shape)
    tensors = gpt_openai.open_pieces(tmp_path)
    config = gpt_openai.read_sizes(tmp_path, tensors)
    assert {key: config[key] for key in GPT} == GPT
    expected = stored_shapes(gpt_openai.OPENAI_GPT.rows(config), weight_shapes(gpt, config))
    assert tensors.shapes == expected
    assert list(tensors.shapes.values()) == [tuple(shape) for shape in shapes]


NUMBERS = dict(
    resid_pdrop=0.25, attn_pdrop=0, embd_pdrop=0.5, layer_norm_epsilon=0.125, initializer_range=0.5
)  # fmt: skip
READ = dict(dropout=0.25, attention_dropout=0.0, norm_epsilon=0.125, initializer_range=0.5)


@pytest.mark.parametrize(
    "name, stated, meant",
    [
        (GPT1, NUMBERS, dict(READ, norm_first=False, intermediate_size=96)),
        (GPT2, NUMBERS, dict(READ, norm_first=True, intermediate_size=60)),
        (GPT2, dict(n_inner=None), dict(intermediate_size=60)),
        (GPT2, dict(n_inner=50), dict(intermediate_size=50)),
        # OpenAI's word for it, which transformers kept
        (GPT1, dict(afn="gelu"), dict(activation="gelu_tanh")),
        (GPT2, dict(activation_function="gelu"), dict(activation="gelu")),
        (GPT2, dict(activation_function="gelu_new"), dict(activation="gelu_tanh")),
    ],
)
def test_huggingface_values_are_read(tmp_path, name, stated, meant):
    (tmp_path / "config.json").write_text(json.dumps(config_json(name, **stated)))
    found = KINDS[name == GPT2]._read_config(tmp_path / "config.json")
    assert {key: found[key] for key in meant} == meant


def test_an_inner_size_is_that_of_the_tensors(tmp_path):
    arrays = huggingface_arrays(GPT2)
    for name in [n for n in arrays if ".mlp." in n and not n.endswith("c_proj.bias")]:
        axis = -1 if "c_fc" in name else 0
        arrays[name] = np.ascontiguousarray(np.take(arrays[name], range(50), axis))
    converted = load_gpt(write(tmp_path, GPT2, arrays, config_json(GPT2, n_inner=50)))
    assert converted.encoder.get_layer("layer_0").intermediate_size == 50


def test_hparams_of_gpt(tmp_path):
    folder = write_pieces(tmp_path, [vector()], hparams=dict(n_head=6, afn="relu", ln_eps=0.5))
    config = load_gpt(folder).config
    expected = dict(num_heads=6, activation="relu", norm_epsilon=0.5)
    assert {key: config[key] for key in expected} == expected
    (tmp_path / "hparams.json").unlink()
    config = load_gpt(tmp_path).config
    expected = dict(num_heads=12, activation="gelu_tanh", norm_epsilon=1e-5)
    assert {key: config[key] for key in expected} == expected


@pytest.mark.parametrize(
    "tokens, merges",
    [
        ("encoder.json", "vocab.bpe"),
        ("encoder_bpe_40000.json", "vocab_40000.bpe"),
        ("vocab.json", "merges.txt"),
    ],
)
def test_vocabulary_is_found(tokens, merges, tmp_path):
    find = GPT_BYTE_PAIRS.find
    with pytest.raises(ValueError, match="vocab="):
        find(tmp_path, None, None, 99).make()
    (tmp_path / tokens).write_text("{}")
    with pytest.raises(FileNotFoundError, match="holds no vocabulary; looked for"):
        find(tmp_path, tmp_path, None, 99)  # one of the two is not enough
    (tmp_path / merges).write_text("")
    for vocab in (None, tmp_path):
        assert find(tmp_path, vocab, None, 99).path == str(tmp_path)
