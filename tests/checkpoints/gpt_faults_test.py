"""What is no GPT, or a damaged one, is refused in one line, before a model is built."""

import json

import numpy as np
import pytest

import tfnlp.checkpoints.encoder_files
from tests.checkpoints.faults import no_model_of, one_line
from tests.checkpoints.gpt_checkpoints import (
    GPT1,
    GPT2,
    config_json,
    copied,
    huggingface_arrays,
    vector,
    write,
    write_pieces,
)
from tests.support import golden
from tfnlp.checkpoints import load_bert, load_gpt

no_model = no_model_of(tfnlp.checkpoints.encoder_files)


def fails(path, pattern, error=ValueError, load=load_gpt, **arguments):
    return one_line(pattern, error, load, path, **arguments)


@pytest.mark.parametrize("name, key", [(GPT1, "positions_embed.weight"), (GPT2, "wte.weight")])
def test_a_missing_table_is_named(tmp_path, no_model, name, key):
    kept = {n: a for n, a in huggingface_arrays(name, "").items() if n != key}
    fails(write(tmp_path, name, kept, kind="npz"), f"in 1 tensors: missing '{key}', expected")


def test_head_that_is_not_the_table(tmp_path, no_model):
    arrays = huggingface_arrays(GPT2)
    arrays["lm_head.weight"] = arrays["transformer.wte.weight"] + 0
    arrays["lm_head.weight"][3, 4] += 1e-3
    fails(write(tmp_path, GPT2, arrays), "different values in 'lm_head.weight' and '.*wte.weight'")


def test_what_is_no_gpt(tmp_path, no_model):
    fails(golden("bert_google_tf_generated"), r"holds no GPT: .*'model/wte'.* found \['bert/")
    fails(golden(GPT2), "no configuration; looked for bert_conf", FileNotFoundError, load_bert)
    folder = write(tmp_path, GPT2, huggingface_arrays(GPT2))
    fails(folder, "model_type='gpt2'; expected that of a BERT, 'bert'", load=load_bert)


def test_missing_files(tmp_path, no_model):
    copied(GPT1, tmp_path)
    (tmp_path / "params_9.npy").unlink()  # the last: only the sum can tell
    fails(tmp_path, "holds 26676 numbers in params_0.npy to params_8.npy, but .* 29640")
    (tmp_path / "params_7.npy").unlink()
    fails(tmp_path, "holds no params_7.npy", FileNotFoundError)
    (tmp_path / "params_shapes.json").unlink()
    fails(tmp_path, "params_shapes.json does not exist", FileNotFoundError)
    folder = write(tmp_path / "x", GPT1, huggingface_arrays(GPT1))
    config = config_json(GPT1)
    del config["n_positions"]
    (folder / "config.json").write_text(json.dumps(config))
    fails(folder, "config.json lacks n_positions")
    (folder / "config.json").unlink()
    fails(folder, "no configuration; looked for config.json", FileNotFoundError)


def test_a_damaged_piece(tmp_path, no_model):
    path = copied(GPT1, tmp_path) / "params_7.npy"
    np.save(tmp_path / "pickled.npy", np.array([{}]), allow_pickle=True)
    pickled = (tmp_path / "pickled.npy").read_bytes()
    for content in (path.read_bytes()[:-4], b"x" * 999, pickled):
        path.write_bytes(content)
        fails(tmp_path, "params_7.npy .*is truncated, corrupt")
    for array in (np.zeros((2, 2)), np.arange(3)):
        np.save(path, array)
        fails(tmp_path, "params_7.npy .*expected a vector of floats")


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
def test_shapes_that_make_no_sense(tmp_path, no_model, shapes, pattern):
    fails(write_pieces(tmp_path, np.split(vector(), 10), shapes), f"params_shapes.json.*{pattern}"
          if "holds" not in pattern else pattern)  # fmt: skip


@pytest.mark.parametrize(
    "changes, pattern",
    [
        (dict(n_layer=4), "n_layer=4, but the tensors have 3"),
        (dict(n_head=0), "n_head=0"),
    ],
)
def test_hparams_of_gpt_that_disagree(tmp_path, no_model, changes, pattern):
    fails(copied(GPT1, tmp_path, **changes), f"hparams.json has {pattern}")


def test_hparams_that_are_absent_or_damaged(tmp_path, no_model):
    copied(GPT2, tmp_path / "two")
    (tmp_path / "two" / "hparams.json").unlink()
    fails(tmp_path / "two", "no configuration; looked for hparams.json", FileNotFoundError)
    # 12 heads, and a width that they don't divide
    shapes = [[2, 8], [3, 8], [1, 8, 24], [24], [1, 8, 8], [8], [8], [8], [1, 8, 32], [32]]
    shapes += [[1, 32, 8], [8], [8], [8]]
    size = sum(int(np.prod(shape)) for shape in shapes)
    folder = write_pieces(tmp_path / "one", [np.zeros(size, np.float32)], shapes)
    (folder / "hparams.json").unlink()
    fails(folder, "hparams.json states no n_head, and the 12 heads .* n_embd=8; state it")
    for name in ("one", "two"):
        (tmp_path / name / "hparams.json").write_bytes(b'{"n_head": 1')
        fails(tmp_path / name, "hparams.json is not a JSON file")


@pytest.mark.parametrize(
    "name, changes, pattern",
    [
        (GPT2, dict(n_layer=4), "asks for n_layer=4, but .*model.safetensors holds 3 layers"),
        (GPT2, dict(n_embd=5 * 2**28), r"found \[15, 45\], expected \[1342177280, 4026531840\]"),
        (GPT2, dict(activation_function="prelu"), "activation_function='prelu'"),
        (GPT2, dict(add_cross_attention=True), "add_cross_attention=True"),
        (GPT2, dict(model_type="openai-gpt"), "model_type='openai-gpt'; expected .*'gpt2'"),
    ],
)
def test_configurations_of_other_models(tmp_path, no_model, name, changes, pattern):
    folder = write(tmp_path, name, huggingface_arrays(name), config_json(name, **changes))
    fails(folder, f"config.json .*{pattern}|{pattern}")
