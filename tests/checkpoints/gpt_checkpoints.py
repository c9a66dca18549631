"""GPT checkpoints that the tests write: the fixtures under other names and in other containers."""

import json
import re

import numpy as np
import tensorflow as tf

from tests.checkpoints import checkpoints
from tests.layers import reference
from tests.support import golden

GPT1, GPT2 = "gpt1_openai_npy", "gpt2_openai_tf"  # 3 layers of 24 and 15, 4 and 5 heads
KINDS = {GPT1: "openai-gpt", GPT2: "gpt2"}


def vector():
    """The GPT fixture's weights as the one vector that its pieces make."""
    return np.concatenate([np.load(golden(GPT1) / f"params_{i}.npy") for i in range(10)])


def openai_arrays(name):
    """The fixture's tensors by OpenAI's names, without `model/`."""
    if name == GPT2:
        reader = tf.train.load_checkpoint(str(golden(name) / "model.ckpt"))
        held = sorted(reader.get_variable_to_shape_map())
        return {key.removeprefix("model/"): reader.get_tensor(key) for key in held}
    names = json.loads((golden(name) / "param_names.json").read_text())
    shapes = json.loads((golden(name) / "params_shapes.json").read_text())
    parts = np.split(vector(), np.cumsum([np.prod(shape) for shape in shapes])[:-1])
    return {n: p.reshape(s) for n, p, s in zip(names, parts, shapes, strict=True)}


def huggingface_arrays(name, prefix="transformer."):
    """The same tensors renamed by string rules, not by the library's tables."""
    tables = {"we": "tokens_embed", "pos": "positions_embed"}
    arrays = {}
    for key, array in openai_arrays(name).items():
        key = re.sub(r"^h(\d+)", r"h.\1", tables.get(key, key)).replace("/", ".")
        key = re.sub(r"\.[wg]$", ".weight", re.sub(r"\.b$", ".bias", key))
        key = key if "." in key else f"{key}.weight"
        arrays[prefix + key] = np.ascontiguousarray(array[0] if array.ndim == 3 else array)
    return arrays


def config_json(name, **changes):
    """What transformers would write for the fixture, with some values changed."""
    sizes = json.loads((golden(name) / "hparams.json").read_text())
    config = {key: sizes[key] for key in ("n_embd", "n_layer", "n_head")}
    config.update(vocab_size=sizes["n_vocab"], n_positions=sizes["n_ctx"], model_type=KINDS[name])
    return {**config, **changes}


def write(folder, name, arrays, config=None, kind="safetensors"):
    """A folder as Hugging Face has it."""
    return checkpoints.write(folder, arrays, config or config_json(name), kind, vocab=False)


def write_pieces(folder, pieces, shapes=None, hparams=None):
    """A folder as OpenAI's GPT came in."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, piece in enumerate(pieces):
        np.save(folder / f"params_{number}.npy", piece)
    if shapes is None:
        shapes = json.loads((golden(GPT1) / "params_shapes.json").read_text())
    (folder / "params_shapes.json").write_text(json.dumps(shapes))
    (folder / "hparams.json").write_text(json.dumps({"n_head": 4} if hparams is None else hparams))
    return folder


def copied(name, folder, **changes):
    """The fixture's folder, to be damaged; `changes` go into `hparams.json`."""
    return checkpoints.copied(golden(name), folder, "hparams.json", **changes)


def inputs(ids):
    ids = np.asarray(ids, "int32")
    return {"input_word_ids": ids, "input_mask": np.ones_like(ids)}


# Our names of a block's parts, and OpenAI's.
PARTS = {
    "attention/qkv": "attn/c_attn",
    "attention/output": "attn/c_proj",
    "attention_norm": "ln_1",
    "intermediate": "mlp/c_fc",
    "output": "mlp/c_proj",
    "output_norm": "ln_2",
}


def gpt2_in_numpy(arrays, ids, heads):
    """openai/gpt-2, src/model.py, in float64: the logits of one row of ids."""
    x = (arrays["wte"][ids] + arrays["wpe"][: len(ids)])[None]
    for layer in range(3):
        weights = {}
        for ours, theirs in PARTS.items():
            names = {"gamma": "g", "beta": "b"} if "norm" in ours else {"kernel": "w", "bias": "b"}
            for name, letter in names.items():
                weights[f"{ours}/{name}"] = arrays[f"h{layer}/{theirs}/{letter}"]
        kind = dict(activation="gelu_tanh", norm_first=True, epsilon=1e-5)
        x = reference.block(x, weights, heads, causal=True, **kind)
    last = {"gamma": arrays["ln_f/g"], "beta": arrays["ln_f/b"]}
    return reference.layer_norm(x[0], last, 1e-5) @ arrays["wte"].T
