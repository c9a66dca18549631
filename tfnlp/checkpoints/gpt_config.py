"""Configurations of GPT and GPT-2, and the names of their tensors in Hugging Face's checkpoints."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.config_fields import check_fields
from tfnlp.checkpoints.encoder_config import (
    layer_arguments,
    read_activation,
    read_number,
    read_size,
)
from tfnlp.checkpoints.encoder_files import ACTIVATIONS as ENCODER_ACTIVATIONS
from tfnlp.checkpoints.encoder_files import TensorNames
from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.heads import SPAN, TaskHead
from tfnlp.checkpoints.mapping import UNTIED, NameTable, Row
from tfnlp.models import gpt
from tfnlp.models.shapes import weight_shapes
from tfnlp.text.lines import shown

_SAME = {"n_embd": "hidden_size", "n_layer": "num_layers", "n_head": "num_heads"}
SIZES = {"vocab_size": "vocab_size", "n_positions": "max_positions", **_SAME}
OPENAI_SIZES = {"n_vocab": "vocab_size", "n_ctx": "max_positions", **_SAME}
# name in the file: argument, default, lower and upper limit (the upper one excluded)
NUMBERS = {
    "resid_pdrop": ("dropout", 0.1, 0.0, 1.0),
    "attn_pdrop": ("attention_dropout", 0.1, 0.0, 1.0),
    "layer_norm_epsilon": ("norm_epsilon", 1e-5, 0.0, 1.0),
    "initializer_range": ("initializer_range", 0.02, 0.0, 1000.0),
}
MODEL_TYPES = {False: "openai-gpt", True: "gpt2"}  # by norm_first
# OpenAI's code of both models, and `openai-gpt` of transformers, call the tanh form "gelu".
OPENAI_ACTIVATIONS = {
    "gelu": "gelu_tanh",
    "gelu (tanh)": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
ACTIVATIONS = {False: OPENAI_ACTIVATIONS, True: ENCODER_ACTIVATIONS}
_HEADS = 12  # of the published GPT
# Constants in OpenAI's code of both models.
OPENAI = {argument: default for argument, default, *_ in NUMBERS.values()}
OPENAI["activation"] = "gelu_tanh"
# Fields that are read beside the sizes and numbers.
_KNOWN = ("tie_word_embeddings", "scale_attn_weights", "scale_attn_by_inverse_layer_idx")

CONFIGURATION = "config.json"
HEAD = "lm_head.weight"
TABLE = "lm_table"  # the layer of a head that has a table of its own
# The heads of fine-tuned models, by norm_first and the kind of output.
_TEXTS = ("class", "label", "score")
HEADS = {
    False: dict.fromkeys(
        _TEXTS,
        TaskHead("OpenAIGPTForSequenceClassification", {"classifier": "score"}, biased=False),
    ),
    True: {
        **dict.fromkeys(
            _TEXTS, TaskHead("GPT2ForSequenceClassification", {"classifier": "score"}, biased=False)
        ),
        "tag": TaskHead("GPT2ForTokenClassification", {"classifier": "classifier"}),
        "span": TaskHead("GPT2ForQuestionAnswering", {SPAN: SPAN}, size=2),
    },
}


def read_config(path: pathlib.Path, norm_first: bool) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.gpt` that a `config.json` of Hugging Face states.

    The rate on the embeddings, `embd_pdrop`, is ignored: `gpt` has one `dropout` for them and for
    the sub-layers, which is `resid_pdrop`.
    """
    config = read_json(path)
    kind = MODEL_TYPES[norm_first]
    if config.get("model_type", kind) != kind:
        raise ValueError(
            f"{path} has model_type={shown(config['model_type'])}, but the tensors have the names "
            f"of {kind!r}; do the files belong together?"
        )
    activation = "activation_function" if norm_first else "afn"
    if any(str(name).endswith("DoubleHeadsModel") for name in config.get("architectures") or ()):
        raise ValueError(
            f"{path} has architectures={shown(config['architectures'])}; tfnlp has no GPT with a "
            "head of choices beside that of the language model"
        )
    check_fields(path, config, [*SIZES, *NUMBERS, *_KNOWN, activation, *["n_inner"] * norm_first])
    arguments = _sizes(path, config, SIZES)
    hidden = arguments["hidden_size"]
    arguments["intermediate_size"] = 4 * hidden
    if norm_first and config.get("n_inner") is not None:
        arguments["intermediate_size"] = read_size(path, config, "n_inner", "GPT")
    arguments["norm_first"] = norm_first
    for key, (argument, *limits) in NUMBERS.items():
        arguments[argument] = read_number(path, config, key, *limits)
    words = "gelu_new" if norm_first else "gelu", ACTIVATIONS[norm_first]
    arguments["activation"] = read_activation(path, config, activation, *words)
    _check_heads(path, arguments)
    return arguments


def scale_queries(
    path: pathlib.Path, arguments: Mapping[str, Any], weights: dict[str, np.ndarray]
) -> None:
    """Put the factors of attention that a GPT-2 may have into the kernels of its queries.

    `scale_attn_by_inverse_layer_idx` divides the scores of layer l by l + 1; without
    `scale_attn_weights` they are not divided by `sqrt(D)`, which tfnlp's always are.
    """
    config, hidden = read_json(path), arguments["hidden_size"]
    for layer in range(arguments["num_layers"]):
        factor = 1.0
        if not config.get("scale_attn_weights", True):
            factor *= (hidden // arguments["num_heads"]) ** 0.5
        if config.get("scale_attn_by_inverse_layer_idx", False):
            factor /= layer + 1
        for name in ("kernel", "bias") if factor != 1.0 else ():
            path_of = f"layer_{layer}/attention/qkv/{name}"
            weights[path_of] = weights[path_of].copy()
            weights[path_of][..., :hidden] *= factor


def read_hparams(path: pathlib.Path) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.gpt` that the `hparams.json` of a GPT-2 states."""
    config = read_json(path)
    arguments = _sizes(path, config, OPENAI_SIZES)
    arguments["intermediate_size"] = 4 * arguments["hidden_size"]
    _check_heads(path, arguments)
    return {**arguments, **OPENAI, "norm_first": True}


def complete(
    path: pathlib.Path, config: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Return the arguments of a GPT whose tensors determine every size but the number of heads.

    `config` is what `hparams.json` holds, `{}` if it is absent; `sizes` has those of the tensors.
    """
    for key, argument in OPENAI_SIZES.items():
        if argument in sizes and config.get(key, sizes[argument]) != sizes[argument]:
            raise ValueError(
                f"{path} has {key}={shown(config[key])}, but the tensors have {sizes[argument]}; "
                "do the files belong together?"
            )
    arguments = {**sizes, **OPENAI, "norm_first": False}
    if "n_head" not in config and sizes["hidden_size"] % _HEADS:
        raise ValueError(
            f"{path} states no n_head, and the {_HEADS} heads of the published GPT don't divide "
            f"n_embd={sizes['hidden_size']}; state it there"
        )
    arguments["num_heads"] = read_size(path, {"n_head": _HEADS, **config}, "n_head", "GPT")
    arguments["activation"] = read_activation(path, config, "afn", "gelu", OPENAI_ACTIVATIONS)
    arguments["norm_epsilon"] = read_number(
        path, config, "ln_eps", OPENAI["norm_epsilon"], 0.0, 1.0
    )
    _check_heads(path, arguments)
    return arguments


def _sizes(
    path: pathlib.Path, config: Mapping[str, Any], table: Mapping[str, str]
) -> dict[str, Any]:
    return {argument: read_size(path, config, key, "GPT") for key, argument in table.items()}


def _check_heads(path: pathlib.Path, arguments: Mapping[str, Any]) -> None:
    hidden, heads = arguments["hidden_size"], arguments["num_heads"]
    if hidden % heads:
        raise ValueError(f"{path} has n_head={heads}, which does not divide n_embd={hidden}")


def config_of(model: keras.Model) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.gpt` that made `model` (an encoder or a pretrainer)."""
    layers = {layer.name: layer for layer in model.layers}
    config = None
    if {"token_embedding", "position_embedding", "layer_0"} <= set(layers):
        block, hidden_size = layers["layer_0"], layers["token_embedding"].hidden_size
        num_layers = sum(name.startswith("layer_") for name in layers)
        config = layer_arguments(layers, block, num_layers, hidden_size)
        for name in ("embedding_size", "num_segments", "padding_id"):
            del config[name]
        config["norm_first"] = block.norm_first
    own = {w.path for w in model.weights} - {f"{TABLE}/embeddings"}
    if config is None or own != set(weight_shapes(gpt, config)):
        raise ValueError(
            f"model {model.name!r} is not a GPT; give an encoder made by `gpt` or a model made "
            "by `gpt_pretrainer`"
        )
    return config


def rows(config: Mapping[str, Any], heads: frozenset[str] = frozenset()) -> dict[str, Row]:
    """Return the table of weight path to `Row`; the head may be `UNTIED` and has none otherwise.

    Kernels are `[in, out]` as in Keras: these two models do not use PyTorch's `Linear`.
    """
    tokens, positions = ("wte", "wpe") if config["norm_first"] else _GPT1_TABLES
    table = NameTable(".weight", ".bias", ".weight", ".bias")
    table.tensor("token_embedding/embeddings", f"{tokens}.weight")
    table.tensor("position_embedding/embeddings", f"{positions}.weight")
    for i in range(config["num_layers"]):
        path, name = f"layer_{i}", f"h.{i}"
        table.dense(f"{path}/attention/qkv", f"{name}.attn.c_attn")
        table.dense(f"{path}/attention/output", f"{name}.attn.c_proj")
        table.norm(f"{path}/attention_norm", f"{name}.ln_1")
        table.dense(f"{path}/intermediate", f"{name}.mlp.c_fc")
        table.dense(f"{path}/output", f"{name}.mlp.c_proj")
        table.norm(f"{path}/output_norm", f"{name}.ln_2")
    if config["norm_first"]:
        table.norm("final_norm", "ln_f")
    if UNTIED in heads:
        table.tensor(f"{TABLE}/embeddings", HEAD)
    return table.rows


def _names(tokens: str, positions: str, title: str) -> TensorNames:
    return TensorNames(
        rows=rows,
        heads={},
        layer=re.compile(r"h\.(\d+)\."),
        beginning=(f"{tokens}.", f"{positions}."),
        base="transformer.",
        # Some files hold the table of the outputs too.
        copies={HEAD: f"{tokens}.weight"},
        # The causal mask and the numbers of the positions.
        buffers=re.compile(r"position_ids|h\.\d+\.attn\.(bias|masked_bias)"),
        hint=f"'{tokens}.weight' (Hugging Face's {title})",
    )


_GPT1_TABLES = "tokens_embed", "positions_embed"
NAMES = {False: _names(*_GPT1_TABLES, "GPT"), True: _names("wte", "wpe", "GPT-2")}  # by norm_first
