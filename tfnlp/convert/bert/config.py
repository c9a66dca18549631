"""Conversion of BERT's configuration files to the arguments of `bert`, and back from a model."""

from __future__ import annotations

import pathlib
from typing import Any

import keras

from tfnlp.convert.config_values import check_fixed, read_number, read_size
from tfnlp.convert.formats.json_files import read_json
from tfnlp.text.lines import shown

SIZES = {
    "vocab_size": "vocab_size",
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "num_segments",
}
# name in the file: argument, default, lower and upper limit (the upper one excluded)
NUMBERS = {
    "hidden_dropout_prob": ("dropout", 0.1, 0.0, 1.0),
    "attention_probs_dropout_prob": ("attention_dropout", 0.1, 0.0, 1.0),
    "layer_norm_eps": ("norm_epsilon", 1e-12, 0.0, 1.0),
    "initializer_range": ("initializer_range", 0.02, 0.0, 1000.0),
}
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "relu": "relu",
}
# Keys that tell other models apart, and the only value that BERT has.
_FIXED = {"model_type": "bert", "position_embedding_type": "absolute", "is_decoder": False}


def read_config(path: pathlib.Path, activation: str | None = None) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.bert` that a configuration file states.

    Args:
        path: `bert_config.json` (Google) or `config.json` (Hugging Face).
        activation: replaces the file's `hidden_act`.

    Raises:
        ValueError: for a file that is not JSON, a size that is absent or not a positive whole
            number, a rate out of its range, an unknown activation, a model that is not BERT.
    """
    config = read_json(path)
    check_fixed(path, config, _FIXED, "load_bert")
    arguments: dict[str, Any] = {
        argument: read_size(path, config, key, "BERT") for key, argument in SIZES.items()
    }
    if arguments["hidden_size"] % arguments["num_heads"]:
        raise ValueError(
            f"{path} has hidden_size={shown(config['hidden_size'])}, which is not a multiple of "
            f"num_attention_heads={shown(config['num_attention_heads'])}"
        )
    for key, (argument, *limits) in NUMBERS.items():
        arguments[argument] = read_number(path, config, key, *limits)
    stated = config.get("hidden_act", "gelu")
    if activation is None and (type(stated) is not str or stated not in ACTIVATIONS):
        raise ValueError(
            f"{path} has hidden_act={shown(stated)}; expected one of {sorted(ACTIVATIONS)}, or "
            "pass activation="
        )
    arguments["activation"] = activation or ACTIVATIONS[stated]
    return arguments


def config_of(model: keras.Model) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.bert` that made `model` (an encoder or a pretrainer).

    Raises:
        ValueError: if `model` is not a BERT.
    """
    layers = {layer.name: layer for layer in model.layers}
    if not {"token_embedding", "position_embedding", "segment_embedding", "layer_0"} <= set(layers):
        raise ValueError(
            f"model {model.name!r} is not a BERT; give an encoder made by `bert` or a model made "
            "by `bert_pretrainer`"
        )
    token, block = layers["token_embedding"], layers["layer_0"]
    return {
        "vocab_size": token.vocab_size,
        "num_layers": sum(name.startswith("layer_") for name in layers),
        "hidden_size": token.hidden_size,
        "num_heads": block.num_heads,
        "intermediate_size": block.intermediate_size,
        "max_positions": layers["position_embedding"].max_positions,
        "num_segments": layers["segment_embedding"].num_segments,
        "dropout": block.dropout,
        "attention_dropout": block.attention_dropout,
        "norm_epsilon": block.norm_epsilon,
        "initializer_range": token.initializer.stddev,
        "activation": block.activation,
        "pooler": "pooler" in layers,
    }
