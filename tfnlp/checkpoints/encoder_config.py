"""Conversion of an encoder's configuration file to its arguments, and back from a model."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras

from tfnlp.checkpoints.config_fields import check_fields
from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.layers import TransformerBlock
from tfnlp.text.lines import shown

if TYPE_CHECKING:
    from tfnlp.checkpoints.encoder_files import EncoderFiles


# Layers that only some encoders have, by the argument that asks for them.
_OF_SOME = {"num_segments": "segment_embedding", "position_buckets": "distance_embedding"}
_SHARED = re.compile(r"shared_layer_\d+_\d+")  # blocks of an ALBERT with several


def read_size(path: pathlib.Path, config: Mapping[str, Any], key: str, model: str) -> int:
    """Return `config[key]`, a whole number from 1 to below 2^31."""
    if key not in config:
        raise ValueError(f"{path} lacks {key}; is it the configuration of a {model}?")
    value = config[key]
    if type(value) is not int or not 1 <= value < 2**31:
        raise ValueError(
            f"{path} has {key}={shown(value)}; expected a whole number from 1 to below 2^31"
        )
    return value


def read_number(
    path: pathlib.Path,
    config: Mapping[str, Any],
    key: str,
    default: float,
    low: float,
    high: float,
) -> float:
    """Return `config[key]`, a number from `low` to below `high`, or the default if it is absent."""
    value = config.get(key, default)
    if type(value) not in (int, float) or not low <= value < high:
        raise ValueError(
            f"{path} has {key}={shown(value)}; expected a number from {low} to below {high}"
        )
    return float(value)


def read_activation(
    path: pathlib.Path,
    config: Mapping[str, Any],
    key: str,
    default: str,
    names: Mapping[str, str],
    advice: str = "",
) -> str:
    """Return tfnlp's name of the activation `config[key]`; `names` are the file's words for it."""
    stated = config.get(key, default)
    if type(stated) is not str or stated not in names:
        raise ValueError(
            f"{path} has {key}={shown(stated)}; expected one of {sorted(names)}{advice}"
        )
    return names[stated]


def written_activation(activation: str, names: Mapping[str, str], model: str) -> str:
    """Return the file's word for an activation: the first of `names` that means it."""
    for theirs, ours in names.items():
        if ours == activation:
            return theirs
    raise ValueError(
        f"activation={activation!r} has no name in Hugging Face's {model}; expected one of "
        f"{sorted(set(names.values()))}"
    )


def read_config(
    files: EncoderFiles, path: pathlib.Path, activation: str | None = None
) -> dict[str, Any]:
    """Return the arguments of the encoder that a configuration file states.

    `activation` replaces the file's.
    """
    config, names = read_json(path), files.config
    known = [*names.sizes, *names.numbers, names.activation, *names.optional, "tie_word_embeddings"]
    if config.get("model_type", names.model_type) != names.model_type:
        raise ValueError(
            f"{path} has model_type={shown(config['model_type'])}, but {files.loader} reads "
            f"model_type={names.model_type!r}"
        )
    check_fields(path, config, known)
    stated = {**names.optional, **config, **names.fixed}
    arguments: dict[str, Any] = {
        argument: read_size(path, stated, key, files.title) for key, argument in names.sizes.items()
    }
    if arguments.get("num_groups", 1) > arguments["num_layers"]:
        raise ValueError(
            f"{path} has more groups of layers ({names.size_key('num_groups')}="
            f"{arguments['num_groups']}) than layers ({arguments['num_layers']})"
        )
    if arguments.get("position_buckets", 32) < 32:
        raise ValueError(
            f"{path} has {names.size_key('position_buckets')}={arguments['position_buckets']}; "
            "expected at least 32, which are read"
        )
    if names.counts_from_padding:
        padding, positions = stated["pad_token_id"], arguments["max_positions"]
        if type(padding) is not int or not 0 <= padding < positions - 1:
            raise ValueError(
                f"{path} has pad_token_id={shown(padding)}; expected a number below "
                f"{names.size_key('max_positions')}={positions} - 1"
            )
        arguments |= {"padding_id": padding, "max_positions": positions - padding - 1}
    if arguments["hidden_size"] % arguments["num_heads"]:
        width, heads = names.size_key("hidden_size"), names.size_key("num_heads")
        raise ValueError(
            f"{path} has {width}={shown(config[width])}, which is not a multiple of "
            f"{heads}={shown(config[heads])}"
        )
    for key, (argument, *limits) in names.numbers.items():
        arguments[argument] = read_number(path, config, key, *limits)
    if activation is None:
        words = names.activation, names.default_activation, names.activations
        activation = read_activation(path, config, *words, ", or pass activation=")
    return {**arguments, "activation": activation}


def config_of(files: EncoderFiles, model: keras.Model) -> dict[str, Any]:
    """Return the arguments that made `model` (an encoder, or one with pretraining heads)."""
    layers = {layer.name: layer for layer in model.layers}
    block = next((each for each in model.layers if isinstance(each, TransformerBlock)), None)
    needed = {"token_embedding", "position_embedding"}
    needed |= {_OF_SOME[name] for name in files.config.sizes.values() if name in _OF_SOME}
    if not needed <= set(layers) or block is None or "encoder_outputs" not in model.output:
        name = files.encoder.__name__
        raise ValueError(
            f"model {model.name!r} is not a {files.title}; give an encoder made by `{name}` or a "
            f"model made by `{name}_pretrainer`"
        )
    outputs, shared = model.output["encoder_outputs"], list(filter(_SHARED.fullmatch, layers))
    groups = {name.split("_")[2] for name in shared}
    found = layer_arguments(layers, block, len(outputs), outputs[-1].shape[-1])
    if "distance_embedding" in layers:
        found["position_buckets"] = layers["distance_embedding"].num_buckets
    found["num_groups"] = len(groups) or 1
    found["group_blocks"] = len(shared) // len(groups) if groups else 1
    found["num_layers"] //= found["group_blocks"]
    for name, value in files.config.constants.items():
        if found[name] != value:
            raise ValueError(
                f"the published {files.title} has {name}={value}; model {model.name!r} has "
                f"{found[name]}"
            )
    config = {name: found[name] for name in files.config.arguments}
    if files.huggingface.pooler is not None:
        config["pooler"] = "pooler" in layers
    return config


def layer_arguments(
    layers: Mapping[str, keras.Layer], block: TransformerBlock, num_layers: int, hidden_size: int
) -> dict[str, Any]:
    """Return the arguments of a Transformer that its layers, by name, and a block of it have."""
    token, segments = layers["token_embedding"], layers.get("segment_embedding")
    return {
        "vocab_size": token.vocab_size,
        "num_layers": num_layers,
        "hidden_size": hidden_size,
        "embedding_size": token.hidden_size,
        "num_heads": block.num_heads,
        "intermediate_size": block.intermediate_size,
        "max_positions": layers["position_embedding"].max_positions,
        "padding_id": layers["position_embedding"].offset - 1,
        "num_segments": None if segments is None else segments.num_segments,
        "dropout": block.dropout,
        "attention_dropout": block.attention_dropout,
        "norm_epsilon": block.norm_epsilon,
        "initializer_range": token.initializer.stddev,
        "activation": block.activation,
    }


def written_config(
    files: EncoderFiles, config: Mapping[str, Any], architecture: str
) -> dict[str, Any]:
    """Return the contents of `config.json`."""
    names = files.config
    sizes = {theirs: config[ours] for theirs, ours in names.sizes.items()}
    if names.counts_from_padding:
        sizes["pad_token_id"] = config["padding_id"]
        sizes[names.size_key("max_positions")] += config["padding_id"] + 1
    return {
        "architectures": [architecture],
        "model_type": names.model_type,
        **sizes,
        **{theirs: config[ours] for theirs, (ours, *_) in names.numbers.items()},
        names.activation: written_activation(config["activation"], names.activations, files.title),
        **names.written,
    }
