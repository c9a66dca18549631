"""Checkpoints of BERT and GPT that do not fit are refused in one line, before a model is built."""

import json

import numpy as np
import pytest

import tfnlp.checkpoints.mapping
from tests.checkpoints import checkpoints as bert
from tests.checkpoints import gpt_checkpoints as gpt
from tests.checkpoints.faults import no_model_of, one_line
from tests.checkpoints.gpt_checkpoints import GPT1, GPT2
from tests.support import golden
from tfnlp.checkpoints import load_bert, load_gpt

no_model = no_model_of(tfnlp.checkpoints.mapping)
pytestmark = pytest.mark.usefixtures("no_model")


def fails(path, pattern, error=ValueError, load=load_bert, **arguments):
    return one_line(pattern, error, load, path, **arguments)


def test_missing_surplus_and_misshapen_are_listed_together(tmp_path):
    arrays = bert.huggingface_arrays()
    del arrays["bert.pooler.dense.bias"]
    arrays["bert.extra"] = np.zeros((2, 3), np.float32)
    name = "bert.encoder.layer.1.intermediate.dense.weight"
    arrays[name] = np.ascontiguousarray(arrays[name].T)
    arrays["bert.embeddings.LayerNorm.bias"] = np.zeros(32, np.int64)
    message = fails(bert.write(tmp_path, arrays), "model.safetensors does not fit .* in 4 tensors")
    assert "missing 'pooler.dense.bias', expected [32]" in message
    assert "surplus 'bert.extra', found [2, 3]" in message
    assert f"misshapen '{name}', found [32, 64], expected [64, 32]" in message
    assert "'bert.embeddings.LayerNorm.bias' has dtype" in message


def tensors(name):
    return bert.huggingface_arrays() if name == "bert" else gpt.huggingface_arrays(name)


def another(arrays, name, like):
    """The tensors with one more, which is almost that of a name."""
    return {**arrays, name: arrays[like] + np.float32(1e-3)}


@pytest.mark.parametrize(
    "name, change, pattern",
    [
        ("bert", lambda x: another(x, "pooler.dense.bias", "bert.pooler.dense.bias"),
         "holds one tensor twice, as '.*' and as '.*pooler.dense.bias'"),
        ("bert", lambda x: {"transformer.h.0.ln_1.weight": np.ones(3, np.float32)},
         r"holds no BERT: .*found \['transformer.h.0.ln_1.weight'\]"),
        (GPT1, lambda x: {n: a for n, a in x.items() if "positions_embed" not in n},
         "in 1 tensors: missing 'positions_embed.weight', expected"),
        (GPT2, lambda x: {n: a for n, a in x.items() if "wte" not in n},
         "in 1 tensors: missing 'wte.weight', expected"),
        (GPT2, lambda x: another(x, "lm_head.weight", "transformer.wte.weight"),
         "different values in 'lm_head.weight' and '.*wte.weight'"),
    ],
)  # fmt: skip
def test_tensors_that_do_not_fit(name, change, pattern, tmp_path):
    if name == "bert":
        fails(bert.write(tmp_path, change(tensors(name))), pattern)
    else:
        fails(gpt.write(tmp_path, name, change(tensors(name))), pattern, load=load_gpt)


@pytest.mark.parametrize(
    "name, change, pattern",
    [
        ("bert", dict(vocab_size=2**31 - 1), r"\[200, 32\], expected \[2147483647"),
        ("bert", dict(num_hidden_layers=4), "num_hidden_layers=4, but .* holds 3 layers"),
        ("bert", dict(num_hidden_layers=2**31 - 1), "num_hidden_layers=2147483647"),
        ("bert", dict(num_attention_heads=5), "not a multiple of num_attention_heads=5"),
        ("bert", dict(hidden_dropout_prob=1.0), "hidden_dropout_prob=1.0"),
        ("bert", dict(hidden_act="prelu"), "hidden_act='prelu'"),
        ("bert", dict(model_type="gpt2"), "model_type='gpt2'"),
        (GPT2, dict(n_layer=4), "asks for n_layer=4, but .*model.safetensors holds 3 layers"),
        (GPT2, dict(n_embd=5 * 2**28), r"found \[15, 45\], expected \[1342177280, 4026531840\]"),
        (GPT2, dict(activation_function="prelu"), "activation_function='prelu'"),
        (GPT2, dict(add_cross_attention=True), "add_cross_attention=True"),
        (GPT2, dict(model_type="openai-gpt"), "model_type='openai-gpt'; expected .*'gpt2'"),
    ],
)  # fmt: skip
def test_configurations_that_do_not_fit(name, change, pattern, tmp_path):
    if name == "bert":
        fails(bert.write(tmp_path, tensors(name), bert.config_json(**change)), pattern)
    else:
        config = gpt.config_json(name, **change)
        fails(gpt.write(tmp_path, name, tensors(name), config), pattern, load=load_gpt)


def test_nothing_there(tmp_path):
    fails(tmp_path / "absent", "no folder, file or TensorFlow checkpoint", FileNotFoundError)
    fails(tmp_path, "holds no weights; looked for model.safetensors, ", FileNotFoundError)
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "config.json").write_text(json.dumps(bert.config_json()))
    fails(tmp_path / "notes.txt", "is not a weight file", FileNotFoundError)
    folder = golden(bert.GENERATED)
    fails(folder, "config_file x.json does not", FileNotFoundError, config_file="x.json")
    fails(folder, "vocabulary x.txt does not exist", FileNotFoundError, vocab="x.txt")
    fails(golden(GPT2), "no configuration; looked for bert_conf", FileNotFoundError)
    fails(folder, r"holds no GPT: .*'model/wte'.* found \['bert/", load=load_gpt)


def test_vocabulary_of_another_model(tmp_path):
    folder = bert.write(tmp_path, bert.google_arrays(), kind="npz")
    (folder / "vocab.txt").write_text("\n".join(str(i) for i in range(201)))
    fails(folder, "vocab.txt has 201 tokens, but the model's vocab_size is 200")
    (folder / "vocab.txt").write_bytes(b"ab\n\xff\n")
    fails(folder, "vocab.txt is not valid UTF-8")


def gpt_fails(path, pattern, error=ValueError):
    fails(path, pattern, error, load_gpt)


def test_missing_files(tmp_path):
    gpt.copied(GPT1, tmp_path)
    (tmp_path / "params_9.npy").unlink()  # the last: only the sum can tell
    gpt_fails(tmp_path, "holds 26676 numbers in params_0.npy to params_8.npy, but .* 29640")
    (tmp_path / "params_7.npy").unlink()
    gpt_fails(tmp_path, "holds no params_7.npy", FileNotFoundError)
    (tmp_path / "params_shapes.json").unlink()
    gpt_fails(tmp_path, "params_shapes.json does not exist", FileNotFoundError)
    config = gpt.config_json(GPT1)
    del config["n_positions"]
    folder = gpt.write(tmp_path / "x", GPT1, tensors(GPT1), config)
    gpt_fails(folder, "config.json lacks n_positions")
    (folder / "config.json").unlink()
    gpt_fails(folder, "no configuration; looked for config.json", FileNotFoundError)
    (gpt.copied(GPT2, tmp_path / "two") / "hparams.json").unlink()
    gpt_fails(tmp_path / "two", "no configuration; looked for hparams.json", FileNotFoundError)


def test_a_damaged_piece(tmp_path):
    path = gpt.copied(GPT1, tmp_path) / "params_7.npy"
    whole = path.read_bytes()
    np.save(path, np.array([{}]), allow_pickle=True)
    for content in (whole[:-4], b"x" * 999, path.read_bytes()):
        path.write_bytes(content)
        gpt_fails(tmp_path, "params_7.npy .*is truncated, corrupt")
    for array in (np.zeros((2, 2)), np.arange(3)):
        np.save(path, array)
        gpt_fails(tmp_path, "params_7.npy .*expected a vector of floats")


def shapes_json(**changes):
    shapes = json.loads((golden(GPT1) / "params_shapes.json").read_text())
    for index, shape in changes.items():
        shapes[int(index[1:])] = shape
    return shapes


@pytest.mark.parametrize(
    "shapes, pattern",
    [
        (shapes_json(_0=[31, 24]), "holds 29640 numbers .* asks for 29616"),
        (shapes_json()[:-1], "lists 37 shapes; expected 2 and 12 for each layer"),
        (shapes_json(_8=[24, 96]), r"shape \[24, 96\] for 'h0/mlp/c_fc/w', expected one of 3"),
        (shapes_json(_0=[32, 24.0]), "is no list of shapes"),
        ({"pos": [32, 24]}, "holds a JSON dict; expected an array"),
    ],
)
def test_shapes_that_make_no_sense(tmp_path, shapes, pattern):
    gpt_fails(gpt.write_pieces(tmp_path, np.split(gpt.vector(), 10), shapes), pattern)


def test_hparams_of_gpt(tmp_path):
    for changes, said in ((dict(n_layer=4), "n_layer=4, but"), (dict(n_head=0), "n_head=0;")):
        folder = gpt.copied(GPT1, tmp_path / said[:7], **changes)
        gpt_fails(folder, f"hparams.json .*{said}")
    # 12 heads, and a width that they don't divide
    shapes = [[2, 8], [3, 8], [1, 8, 24], [24], [1, 8, 8], [8], [8], [8], [1, 8, 32], [32]]
    shapes += [[1, 32, 8], [8], [8], [8]]
    size = sum(int(np.prod(shape)) for shape in shapes)
    folder = gpt.write_pieces(tmp_path / "one", [np.zeros(size, np.float32)], shapes)
    (folder / "hparams.json").unlink()
    gpt_fails(folder, "hparams.json has n_embd=8, which is not a multiple of n_head=12")
